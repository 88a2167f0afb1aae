//go:build unix

package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// StartTLS is Start with TLS on the server's only port. Its certificate is valid for 127.0.0.1 and
// localhost, and made for this server. It is its own authority, and the client's certificate too,
// see the Server's CAFile. A client certificate is optional; the configuration "tls-auth-clients
// yes" demands one.
func StartTLS(t testing.TB, kind Kind, config ...string) *Server {
	t.Helper()
	s := newServer(t, kind, nil)
	s.CertFile, s.KeyFile = filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key")
	s.CAFile = s.CertFile
	s.config = append(s.config,
		"tls-ca-cert-file "+strconv.Quote(s.CAFile), "tls-cert-file "+strconv.Quote(s.CertFile),
		"tls-key-file "+strconv.Quote(s.KeyFile), "tls-auth-clients optional")
	s.config = append(s.config, config...)

	pair, err := newCertificate(s.CertFile, s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	s.tls = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "localhost"}
	s.startAnywhere(s.startOnPort)
	return s
}

// newCertificate writes a new certificate, for both ends of a connection, and its key.
func newCertificate(certFile, keyFile string) (pair tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "fenlock test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err1 := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	rawKey, err2 := x509.MarshalPKCS8PrivateKey(key)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	if err := errors.Join(err1, err2, os.WriteFile(certFile, cert, 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey}), 0o600)); err != nil {
		return pair, err
	}
	return tls.LoadX509KeyPair(certFile, keyFile)
}
