package etcdnode

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/secretfile"
	"github.com/fenlock/fenlock/node/tlsfiles"
)

// parameters are the query parameters that a URL may have.
var parameters = []string{"passwordfile", "ca", "cert", "key", "servername", "name"}

// address is what a URL says. What comes from files is read anew for each connection.
type address struct {
	scheme  string
	members []string // host:port, of a cluster's members
	prefix  keys
	name    string // for people
	member  string // what clients call the node
	tls     func() (*tls.Config, error)
	user    string
	// password returns the user's, "" for none.
	password func() (string, error)
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: etcdnode: %s", node.ErrInvalid, fmt.Sprintf(format, args...))
}

// parseURL reads a node's URL. No error of it has a part in which a password may be.
func parseURL(raw string) (*address, error) {
	const form = "etcd://user:password@host1:2379,host2:2379,host3:2379/prefix"
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, invalidf("the node's URL has no scheme: the form is %s", form)
	}
	if scheme != "etcd" && scheme != "etcds" {
		return nil, invalidf("the node's URL is no etcd: or etcds: URL")
	}
	// Package url knows no list of hosts: each is read as a URL of its own.
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	hosts, tail := rest[:end], rest[end:]
	user := ""
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, hosts = hosts[:i+1], hosts[i+1:]
	}
	u, err := url.Parse(scheme + "://" + user + "host" + tail)
	if err != nil || strings.Contains(tail, "@") {
		return nil, invalidf("the node's URL cannot be parsed (the form is %s; characters such as @ / : # in a password are written %%40 %%2F %%3A %%23)", form)
	}
	a := &address{scheme: scheme}
	for _, host := range strings.Split(hosts, ",") {
		h, err := url.Parse("etcd://" + host)
		if err != nil || h.Hostname() == "" || h.User != nil {
			return nil, invalidf("the node's URL has a member without a host: the form is %s", form)
		}
		port := h.Port()
		if port == "" {
			port = "2379"
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, invalidf("the node's URL has a port that does not exist: 1 to 65535 do")
		}
		member := net.JoinHostPort(h.Hostname(), port)
		if slices.Contains(a.members, member) {
			return nil, invalidf("the node's URL has the member %s twice", member)
		}
		a.members = append(a.members, member)
	}
	a.prefix = DefaultPrefix
	a.name = scheme + "://" + strings.Join(a.members, ",")
	if path := strings.TrimRight(u.Path, "/"); path != "" {
		a.prefix = keys(path + "/")
		a.name += path
	}
	_, a.member, _ = strings.Cut(a.name, "://")
	if u.Fragment != "" {
		return nil, invalidf("the node's URL %s has a fragment (a # in a password is written %%23)", a.name)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalidf("the parameters of the node's URL %s cannot be parsed", a.name)
	}
	for key, values := range query {
		if !slices.Contains(parameters, key) {
			return nil, invalidf("the node's URL %s has the unknown parameter %q: known are %s", a.name, key, strings.Join(parameters, ", "))
		}
		if len(values) > 1 {
			return nil, invalidf("the node's URL %s has the parameter %q twice", a.name, key)
		}
	}
	if query.Has("name") {
		a.member = query.Get("name")
		if a.member == "" || strings.ContainsFunc(a.member, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return nil, invalidf("the node's URL %s has a name that is empty or has spaces", a.name)
		}
	}
	if err := a.credentials(u, query); err != nil {
		return nil, err
	}
	return a, a.security(query)
}

// credentials reads who the client is.
func (a *address) credentials(u *url.URL, query url.Values) error {
	a.user = u.User.Username()
	password, _ := u.User.Password()
	file := query.Get("passwordfile")
	switch {
	case query.Has("passwordfile") && password != "":
		return invalidf("the node's URL %s has a password and a passwordfile: one is enough", a.name)
	case query.Has("passwordfile"):
		a.password = func() (string, error) { return secretfile.ReadPassword(file) }
		if _, err := a.password(); err != nil {
			return invalidf("the node's URL %s: passwordfile: %v", a.name, err)
		}
	default:
		a.password = func() (string, error) { return password, nil }
	}
	if (a.user == "") != (password == "" && file == "") {
		return invalidf("the node's URL %s needs a user and a password, or neither: etcd has no password without a user (etcd://user:password@host, or one in a file, etcd://user@host?passwordfile=/path)", a.name)
	}
	return nil
}

// security sets how TLS verifies the members: against the system's roots or the
// certificates in a file, and the host of each, or the name in a parameter.
func (a *address) security(query url.Values) error {
	if a.scheme != "etcds" {
		if query.Has("ca") || query.Has("cert") || query.Has("key") || query.Has("servername") {
			return invalidf("the node's URL %s has parameters of TLS but no TLS: the scheme is etcds", a.name)
		}
		return nil
	}
	a.tls = func() (*tls.Config, error) {
		config, err := tlsfiles.Config("", query)
		if err != nil {
			return nil, err
		}
		config.ServerName = ""
		if name := query.Get("servername"); name != "" {
			verifyAs(config, name)
		}
		return config, nil
	}
	if _, err := a.tls(); err != nil {
		return invalidf("the node's URL %s: %v", a.name, err)
	}
	return nil
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
