package engine

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/secretfile"
)

// Form is what the URLs of an engine's nodes look like:
//
//	scheme://[user[:password]@]host[:port][,host[:port]...][/path][?parameter=value&...]
type Form struct {
	Engine  string   // the package, which says what Parameters there are
	Example string   // a URL, for errors
	Schemes []string // those that Secure and Socket have are not among them
	Secure  []string // the schemes with TLS. nil: the engine decides
	Socket  string   // the scheme of a path in the file system, without a host. "": none
	Port    string   // where a host has none; "": none is put there
	Several bool     // hosts, separated by commas
	Open    bool     // there may be no host, and a host may be a folder of sockets, written with %2F
}

// URL is what a node's URL says. Files are read anew whenever they are needed, so that a
// program need not be restarted for a new password or certificate.
type URL struct {
	Scheme string
	Hosts  []string // host:port, without the port if neither the URL nor the Form has one; nothing in them is escaped
	Path   string   // not escaped any more
	User   string
	Name   string // what the parameter name says; "" if it is not there
	// TLS: the scheme is one with TLS. Of engines that take the parameter tls it says so. Without, it
	// is on, but for a loopback address without parameters that TLSConfig reads.
	TLS bool

	shown    string // scheme and hosts
	password string
	query    url.Values
}

// Parse reads a URL. The error matches node.ErrInvalid. It has no part of the URL that may be of an
// unescaped password. It has no value of a parameter but the path of a file. Parameters that the
// engine does not take, that are there twice or that are empty are refused. A setting that is
// silently ignored is not set.
func (f Form) Parse(raw string) (*URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	known := slices.Concat(f.Schemes, f.Secure, strings.Fields(f.Socket))
	if !ok || !slices.Contains(known, scheme) {
		return nil, Invalidf("the node's URL has no scheme that is known (%s): the form is %s", strings.Join(known, ", "),
			f.Example)
	}
	// Package url knows no list of hosts: each is read as a URL of its own.
	hosts, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		hosts, tail = rest[:i], rest[i:]
	}
	user := ""
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, hosts = hosts[:i+1], hosts[i+1:]
	}
	parsed, err := url.Parse(scheme + "://" + user + "host" + tail)
	// An @ behind the hosts means that a character of the password was taken for their end.
	if err != nil || strings.Contains(tail, "@") {
		return nil, Invalidf("the node's URL cannot be parsed (the form is %s; characters such as @ / : # in a password are written %%40 %%2F %%3A %%23)", f.Example)
	}
	u := &URL{Scheme: scheme, Path: parsed.Path, User: parsed.User.Username(), TLS: slices.Contains(f.Secure, scheme)}
	u.password, _ = parsed.User.Password()
	if scheme == f.Socket {
		if hosts != "" || u.Path == "" {
			return nil, Invalidf("the node's URL must have the form %s:///path/to/socket", scheme)
		}
		u.shown = scheme + "://" + u.Path
	} else if f.Open && hosts == "" {
		u.shown = scheme + "://" + u.Path
	} else if err := u.address(f, hosts); err != nil {
		return nil, err
	}
	if strings.Contains(tail, "#") {
		return nil, u.Invalidf("there is a fragment (a # is written %%23)")
	}
	if u.query, err = url.ParseQuery(parsed.RawQuery); err != nil {
		return nil, u.Invalidf("the parameters cannot be parsed")
	}
	if err := u.check(f); err != nil {
		return nil, err
	}
	return u, nil
}

// address reads the hosts.
func (u *URL) address(f Form, hosts string) error {
	if strings.Contains(hosts, ",") && !f.Several {
		return Invalidf("the node's URL has a comma in its host: each node has a URL of its own")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		folder := f.Open && strings.HasPrefix(strings.ToLower(host), "%2f")
		at := host
		if folder { // package url takes no such host
			name, port, _ := strings.Cut(host, ":")
			if at, host = "folder", name; port != "" {
				at += ":" + port
			}
		}
		h, err := url.Parse("host://" + at)
		switch {
		case err != nil:
			return Invalidf("the node's URL has a host that cannot be parsed: the form is %s", f.Example)
		case strings.Contains(h.Hostname(), ":") && !strings.HasPrefix(host, "["):
			return Invalidf("the node's URL has an IPv6 address without brackets: write [::1]:port")
		case h.Hostname() == "":
			return Invalidf("the node's URL has no host, or an empty one: the form is %s", f.Example)
		}
		port := cmp.Or(h.Port(), f.Port)
		if n, err := strconv.Atoi(cmp.Or(port, "1")); err != nil || n < 1 || n > 65535 {
			return Invalidf("the node's URL has a port that does not exist: 1 to 65535 do")
		}
		if folder {
			if host, err = url.PathUnescape(host); err != nil {
				return Invalidf("the node's URL has a folder that cannot be parsed: the form is %s", f.Example)
			}
			if port != "" {
				host += ":" + port
			}
		} else if host = h.Host; port != "" {
			host = net.JoinHostPort(h.Hostname(), port)
		}
		if slices.ContainsFunc(u.Hosts, func(other string) bool { return strings.EqualFold(other, host) }) {
			return Invalidf("the node's URL has the host %s twice", host)
		}
		u.Hosts = append(u.Hosts, host)
	}
	u.shown = u.Scheme + "://" + strings.Join(u.Hosts, ",")
	return nil
}

// check refuses invalid parameters, and those that do not go together.
func (u *URL) check(f Form) error {
	known := parametersOf(f.Engine)
	for key, values := range u.query {
		i := slices.IndexFunc(known, func(p Parameter) bool { return p.Name == key })
		switch {
		case i < 0:
			names := ""
			for _, p := range known {
				names += ", " + p.Name
			}
			if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" { // it may be the rest of a password with an & in it
				return u.Invalidf("there is a parameter that is not known: known are %s", names[2:])
			}
			return u.Invalidf("there is no parameter %.40q: known are %s", key, names[2:])
		case len(values) > 1:
			return u.Invalidf("the parameter %s is there twice", key)
		case values[0] == "":
			return u.Invalidf("the parameter %s is empty", key)
		case known[i].Values != nil && !slices.Contains(known[i].Values, values[0]):
			return u.Invalidf("%s is one of %s, and here it is something else", key, strings.Join(known[i].Values, ", "))
		}
	}
	if u.Name = u.Get("name"); u.Name != "" && !IsMember(u.Name) {
		return u.Invalidf("the name has spaces, or is *")
	}
	if file := u.Get("passwordfile"); file != "" {
		if u.password != "" {
			return u.Invalidf("there are a password and a passwordfile: one is enough")
		}
		if _, err := secretfile.ReadPassword(file); err != nil {
			return u.Invalidf("passwordfile: %v", err)
		}
	}
	if slices.ContainsFunc(known, func(p Parameter) bool { return p.Name == "tls" }) {
		says := u.Get("tls")
		if u.TLS = says == "on" || u.Verifies() || !u.Local() && says != "off"; u.TLS && says == "off" {
			return u.Invalidf("there are parameters of TLS and tls=off")
		}
	}
	switch {
	case u.TLS:
		if _, err := u.TLSConfig(); err != nil {
			return u.Invalidf("%v", err)
		}
	case f.Secure != nil && u.Verifies():
		return u.Invalidf("there are parameters of TLS but no TLS: the scheme is %s", strings.Join(f.Secure, " or "))
	}
	return nil
}

// Get returns a parameter, "" if it is not there.
func (u *URL) Get(parameter string) string { return u.query.Get(parameter) }

// HasPassword reports whether there is a password, or a file of one.
func (u *URL) HasPassword() bool { return u.password != "" || u.Get("passwordfile") != "" }

// Password returns the password as it is now, "" if there is none. The error is of its file,
// and matches node.ErrMisconfigured.
func (u *URL) Password() (string, error) {
	file := u.Get("passwordfile")
	if file == "" {
		return u.password, nil
	}
	password, err := secretfile.ReadPassword(file)
	if err != nil {
		return "", Misconfiguredf("passwordfile: %w", err)
	}
	return password, nil
}

// Hostname returns the first host without its port.
func (u *URL) Hostname() string {
	if len(u.Hosts) == 0 {
		return ""
	}
	return hostname(u.Hosts[0])
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// Local reports whether all hosts are this machine.
func (u *URL) Local() bool {
	return !slices.ContainsFunc(u.Hosts, func(host string) bool { return !IsLocal(hostname(host)) })
}

// IsLocal reports whether a host, without a port, is this machine: a loopback address, localhost or
// a folder of sockets.
func IsLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasPrefix(host, "/") || ip != nil && ip.IsLoopback()
}

// Verifies reports whether there is one of the parameters that TLSConfig reads.
func (u *URL) Verifies() bool {
	return slices.ContainsFunc([]string{"ca", "cert", "key", "servername"}, u.query.Has)
}

// TLSConfig returns a configuration that verifies the server against the system's roots, or
// against the certificates in the PEM file that the parameter ca names. The server's
// certificate is for the first host, or for the name in the parameter servername. The
// parameters cert and key name the client's own, and go together. There is none to turn the
// verification off: a certificate of one's own is a ca too.
//
// The files are read now. The error says which file, matches node.ErrMisconfigured, and has
// nothing of what is in the file.
func (u *URL) TLSConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(u.Get("servername"), u.Hostname())}
	if file := u.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, Misconfiguredf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, Misconfiguredf("ca: %s has no certificate in PEM form", file)
		}
	}
	cert, key := u.Get("cert"), u.Get("key")
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, Misconfiguredf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Invalidf returns an error about the URL, which has the scheme and the hosts, and matches
// node.ErrInvalid.
func (u *URL) Invalidf(format string, args ...any) error {
	return Invalidf("the node's URL %s: %s", u.shown, fmt.Sprintf(format, args...))
}

// IsTag reports whether a text can be the hash tag of a cluster's node: it is a part of keys, of
// names and of patterns.
func IsTag(text string) bool {
	return len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
}

// IsMember reports whether the clients of a group can call a node so: stores record the
// names of a group's nodes, separated by spaces.
func IsMember(name string) bool {
	return name != "" && name != admit.AnyMembers &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
