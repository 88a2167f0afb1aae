package etcdnode

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
)

var form = engine.Form{Engine: "etcdnode", Example: "etcd://user:password@host1:2379,host2:2379,host3:2379/prefix",
	Schemes: []string{"etcd"}, Secure: []string{"etcds"}, Port: "2379", Several: true}

// address is what a URL says. What comes from files is read anew for each connection.
type address struct {
	*engine.URL
	prefix keys
	name   string // for people
	member string // what clients call the node
}

// parseURL reads a node's URL. No error of it has a part in which a password may be.
func parseURL(raw string) (*address, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	if (u.User != "") != u.HasPassword() {
		return nil, u.Invalidf("there have to be a user and a password, or neither: etcd has no password without a user (etcd://user:password@host, or one in a file, etcd://user@host?passwordfile=/path)")
	}
	path := strings.TrimRight(u.Path, "/")
	called := strings.Join(u.Hosts, ",") + path
	a := &address{URL: u, prefix: DefaultPrefix, name: u.Scheme + "://" + called, member: cmp.Or(u.Name, called)}
	if path != "" {
		a.prefix = keys(path + "/")
	}
	return a, nil
}

// config returns how TLS verifies the members: against the system's roots or the certificates in a
// file. The certificate must be for the member's host, or for the name in a parameter.
func (a *address) config() (*tls.Config, error) {
	config, err := a.TLSConfig()
	if err != nil {
		return nil, err
	}
	config.ServerName = ""
	if name := a.Get("servername"); name != "" {
		verifyAs(config, name)
	}
	return config, nil
}

// verifyAs has a member's certificate verified for a name. etcd's library overrides a
// configuration's ServerName with the host of each endpoint, so it is done by hand, as the
// documentation of tls.Config shows.
func verifyAs(config *tls.Config, name string) {
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(c tls.ConnectionState) error {
		if len(c.PeerCertificates) == 0 {
			return fmt.Errorf("x509: the member shows no certificate")
		}
		options := x509.VerifyOptions{DNSName: name, Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
		for _, cert := range c.PeerCertificates[1:] {
			options.Intermediates.AddCert(cert)
		}
		_, err := c.PeerCertificates[0].Verify(options)
		return err
	}
}
