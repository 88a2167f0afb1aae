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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// StartTLS is Start with TLS on the server's only port. Its certificate is valid
// for 127.0.0.1 and localhost and signed by an authority made for this server, see
// the Server's CAFile. A client certificate is optional; the configuration
// "tls-auth-clients yes" demands one.
func StartTLS(t testing.TB, kind Kind, config ...string) *Server {
	t.Helper()
	s := newServer(t, kind, nil)
	ca := newAuthority(t)
	s.tls = true
	s.CAFile = filepath.Join(s.folder, "ca.crt")
	s.CertFile, s.KeyFile = filepath.Join(s.folder, "client.crt"), filepath.Join(s.folder, "client.key")
	certFile, keyFile := filepath.Join(s.folder, "server.crt"), filepath.Join(s.folder, "server.key")
	writePEM(t, s.CAFile, "CERTIFICATE", ca.certificate.Raw)
	ca.issue(t, "client", s.CertFile, s.KeyFile)
	ca.issue(t, "localhost", certFile, keyFile)
	s.config = append(s.config,
		"tls-ca-cert-file "+strconv.Quote(s.CAFile), "tls-cert-file "+strconv.Quote(certFile),
		"tls-key-file "+strconv.Quote(keyFile), "tls-auth-clients optional")
	s.config = append(s.config, config...)

	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	s.tlsConfig = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "localhost"}
	s.startOnFreePort()
	return s
}

// TLSConfig returns a client's configuration for this server, with the client's
// certificate; nil for a server without TLS.
func (s *Server) TLSConfig() *tls.Config { return s.tlsConfig.Clone() }

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fenlock test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

// issue writes a new certificate and its key, for either end of a connection.
func (a *authority) issue(t testing.TB, name, certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", raw)
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, keyFile, "PRIVATE KEY", rawKey)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file, blockType string, raw []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
