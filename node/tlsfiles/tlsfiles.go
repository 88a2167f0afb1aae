// Package tlsfiles is how engines verify a server and show their own certificate, by files
// that a node's URL names.
package tlsfiles

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
)

// Config returns a configuration that verifies the server against the system's roots, or
// against the certificates in the PEM file that the parameter ca names. The server's certificate is for the
// host, or for the name in the parameter servername. The parameters cert and key name the
// client's own, and go together. There is none to turn the verification off: a
// certificate of one's own is a ca too.
//
// The files are read now: who wants renewed ones calls it for each connection. The error
// says which file, and has nothing of what is in it.
func Config(host string, query url.Values) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(query.Get("servername"), host)}
	if file := query.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM form", file)
		}
	}
	cert, key := query.Get("cert"), query.Get("key")
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
