package transport

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
	"github.com/valkey-io/valkey-go"
)

// parameters are the query parameters that a URL may have.
var parameters = []string{"ca", "cert", "key", "servername", "db", "name"}

// ParseURL reads a node's URL. It returns the options of the connection, a
// name for people that has no password in it, and what all clients of its group call
// the node. valkey.ParseURL would do most of
// it, but it repeats passwords in its errors, ignores parameters that it does
// not know, and lets a parameter turn the verification of certificates off.
func ParseURL(raw string) (opt valkey.ClientOption, name, member string, err error) {
	u, err := url.Parse(raw)
	// An @ behind the host means that a character of the password was taken for
	// the end of the host; whatever is printed of such a URL may be the
	// password. An opaque part ("word:rest") is no URL of ours; it may be a
	// password that was cut at a comma.
	if err != nil || u.Opaque != "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		// url.Error repeats the URL, with its password.
		return opt, "", "", command.Invalid("the node's URL cannot be parsed (the form is valkey://user:password@host:port/db; characters such as @ / : # in a password are written %%40 %%2F %%3A %%23)")
	}
	switch u.Scheme {
	case "valkey", "redis", "valkeys", "rediss":
		port := cmp.Or(u.Port(), "6379")
		opt.InitAddress = []string{net.JoinHostPort(u.Hostname(), port)}
		name = u.Scheme + "://" + opt.InitAddress[0]
		if u.Hostname() == "" {
			return opt, "", "", command.Invalid("the node's URL has no host: the form is %s://host:port", u.Scheme)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return opt, "", "", command.Invalid("the node's URL %s has a port that does not exist: 1 to 65535 do", name)
		}
	case "unix":
		opt.InitAddress = []string{u.Path}
		name = "unix://" + u.Path
		if u.Path == "" || u.Host != "" {
			return opt, "", "", command.Invalid("the node's URL must have the form unix:///path/to/socket")
		}
	case "":
		return opt, "", "", command.Invalid("the node's URL has no scheme: the form is valkey://host:port")
	default:
		return opt, "", "", command.Invalid("the node's URL has the scheme %q: valkey, valkeys, redis, rediss and unix are known", u.Scheme)
	}
	opt.Username = u.User.Username()
	opt.Password, _ = u.User.Password()
	if opt.Username != "" && opt.Password == "" {
		return opt, "", "", command.Invalid("the node's URL %s has a user but no password (a password alone is written valkey://:password@host)", name)
	}

	if u.Fragment != "" {
		return opt, "", "", command.Invalid("the node's URL %s has a fragment (a # in a password is written %%23)", name)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return opt, "", "", command.Invalid("the parameters of the node's URL %s cannot be parsed", name)
	}
	for key, values := range query {
		if !slices.Contains(parameters, key) {
			return opt, "", "", command.Invalid("the node's URL %s has the unknown parameter %q: known are %s", name, key, strings.Join(parameters, ", "))
		}
		if len(values) > 1 {
			return opt, "", "", command.Invalid("the node's URL %s has the parameter %q twice", name, key)
		}
	}
	if opt.SelectDB, err = database(u, query); err != nil {
		return opt, "", "", command.Invalid("the node's URL %s: %v", name, err)
	}
	if opt.SelectDB != 0 {
		name = fmt.Sprintf("%s/%d", name, opt.SelectDB)
	}
	if u.Scheme == "valkeys" || u.Scheme == "rediss" {
		opt.TLSConfig, err = tlsConfig(u.Hostname(), query)
		if err != nil {
			return opt, "", "", command.Invalid("the node's URL %s: %v", name, err)
		}
	} else if query.Has("ca") || query.Has("cert") || query.Has("key") || query.Has("servername") {
		return opt, "", "", command.Invalid("the node's URL %s has parameters of TLS but no TLS: the scheme is valkeys or rediss", name)
	}
	// Whether it is reached with TLS, and by which of the schemes, makes no other server.
	_, member, _ = strings.Cut(name, "://")
	if query.Has("name") {
		if member = query.Get("name"); member == "" || strings.ContainsFunc(member, func(r rune) bool { return r <= ' ' || r == 0x7f }) || member == command.AnyMembers {
			return opt, "", "", command.Invalid("the node's URL %s has a name that is empty, has spaces or is *", name)
		}
	}
	return opt, name, member, nil
}

func database(u *url.URL, query url.Values) (int, error) {
	text := query.Get("db")
	if u.Scheme != "unix" {
		if text != "" {
			return 0, fmt.Errorf("the database is written as the path, /%s", text)
		}
		text = strings.TrimPrefix(u.Path, "/")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the database %q is not a number", text)
	}
	return n, nil
}

// tlsConfig verifies the server against the system's roots, or against the
// certificates in the file that the parameter ca names; its certificate is for the host
// of the URL, or for the name in the parameter servername. There is no parameter to turn
// that off: a certificate of one's own is a ca too.
func tlsConfig(host string, query url.Values) (*tls.Config, error) {
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
	certFile, keyFile := query.Get("cert"), query.Get("key")
	if (certFile == "") != (keyFile == "") {
		return nil, fmt.Errorf("cert and key go together")
	}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
