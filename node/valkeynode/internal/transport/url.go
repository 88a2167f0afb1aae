package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/respnode"
	"github.com/fenlock/fenlock/node/secretfile"
	"github.com/fenlock/fenlock/node/tlsfiles"
	"github.com/valkey-io/valkey-go"
)

// parameters are the query parameters that a URL may have.
var parameters = []string{"passwordfile", "ca", "cert", "key", "servername", "db", "name"}

// Server is what a node's URL says of a server, and how to connect to it. What comes from
// files is read anew for each connection, so that it can be changed while a program runs.
type Server struct {
	Name   string // for people, with no password in it
	Member string // what all clients of its group call the node
	Option valkey.ClientOption

	// Credentials returns user and password for a connection. Nil: they are in Option.
	Credentials func(ctx context.Context) (user, password string, err error)
	TLS         func() (*tls.Config, error) // nil: without
	// dial makes a connection, with TLS if there is to be; nil: as usual.
	dial func(ctx context.Context, address string, dialer *net.Dialer) (net.Conn, error)
}

// call sets what the group calls the node: "" for its address. Whether it is reached with
// TLS, and by which of the schemes, makes no other server.
func (s *Server) call(name string) error {
	if s.Member = name; name == "" {
		_, s.Member, _ = strings.Cut(s.Name, "://")
		return nil
	}
	if respnode.CheckMember(name) != nil {
		return invalid("the node %s has a name that is empty, has spaces or is *", s.Name)
	}
	return nil
}

// ParseURL reads a node's URL. valkey.ParseURL would do most of
// it, but it repeats passwords in its errors, ignores parameters that it does
// not know, and lets a parameter turn the verification of certificates off.
func ParseURL(raw string) (*Server, error) {
	s := &Server{}
	if err := s.parse(raw); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) parse(raw string) error {
	u, err := url.Parse(raw)
	// An @ behind the host means that a character of the password was taken for
	// the end of the host; whatever is printed of such a URL may be the
	// password. An opaque part ("word:rest") is no URL of ours; it may be a
	// password that was cut at a comma.
	if err != nil || u.Opaque != "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		// url.Error repeats the URL, with its password.
		return invalid("the node's URL cannot be parsed (the form is valkey://user:password@host:port/db; characters such as @ / : # in a password are written %%40 %%2F %%3A %%23)")
	}
	if strings.Contains(u.Host, ",") {
		return invalid("the node's URL has a comma in its host: each node has a URL of its own")
	}
	switch u.Scheme {
	case "valkey", "redis", "valkeys", "rediss":
		port := cmp.Or(u.Port(), "6379")
		s.Option.InitAddress = []string{net.JoinHostPort(u.Hostname(), port)}
		s.Name = u.Scheme + "://" + s.Option.InitAddress[0]
		if u.Hostname() == "" {
			return invalid("the node's URL has no host: the form is %s://host:port", u.Scheme)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return invalid("the node's URL %s has a port that does not exist: 1 to 65535 do", s.Name)
		}
	case "unix":
		s.Option.InitAddress = []string{u.Path}
		s.Name = "unix://" + u.Path
		if u.Path == "" || u.Host != "" {
			return invalid("the node's URL must have the form unix:///path/to/socket")
		}
	case "":
		return invalid("the node's URL has no scheme: the form is valkey://host:port")
	default:
		return invalid("the node's URL has the scheme %q: valkey, valkeys, redis, rediss and unix are known", u.Scheme)
	}
	if u.Fragment != "" {
		return invalid("the node's URL %s has a fragment (a # in a password is written %%23)", s.Name)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return invalid("the parameters of the node's URL %s cannot be parsed", s.Name)
	}
	for key, values := range query {
		if !slices.Contains(parameters, key) {
			return invalid("the node's URL %s has the unknown parameter %q: known are %s", s.Name, key, strings.Join(parameters, ", "))
		}
		if len(values) > 1 {
			return invalid("the node's URL %s has the parameter %q twice", s.Name, key)
		}
	}
	if s.Option.SelectDB, err = database(u, query); err != nil {
		return invalid("the node's URL %s: %v", s.Name, err)
	}
	if s.Option.SelectDB != 0 {
		s.Name = fmt.Sprintf("%s/%d", s.Name, s.Option.SelectDB)
	}
	if err := s.credentials(u, query); err != nil {
		return err
	}
	if u.Scheme == "valkeys" || u.Scheme == "rediss" {
		s.TLS = func() (*tls.Config, error) { return tlsfiles.Config(u.Hostname(), query) }
		if _, err := s.TLS(); err != nil {
			return invalid("the node's URL %s: %v", s.Name, err)
		}
	} else if query.Has("ca") || query.Has("cert") || query.Has("key") || query.Has("servername") {
		return invalid("the node's URL %s has parameters of TLS but no TLS: the scheme is valkeys or rediss", s.Name)
	}
	if query.Has("name") && query.Get("name") == "" {
		return invalid("the node's URL %s has an empty name", s.Name)
	}
	return s.call(query.Get("name"))
}

// credentials reads who the client is: a user and a password, or the file that has it.
func (s *Server) credentials(u *url.URL, query url.Values) error {
	user := u.User.Username()
	password, _ := u.User.Password()
	file := query.Get("passwordfile")
	switch {
	case query.Has("passwordfile") && password != "":
		return invalid("the node's URL %s has a password and a passwordfile: one is enough", s.Name)
	case query.Has("passwordfile"):
		s.Credentials = func(context.Context) (string, string, error) {
			password, err := secretfile.ReadPassword(file)
			return user, password, err
		}
		if _, _, err := s.Credentials(context.Background()); err != nil {
			return invalid("the node's URL %s: passwordfile: %v", s.Name, err)
		}
	case user != "" && password == "":
		return invalid("the node's URL %s has a user but no password (a password alone is written valkey://:password@host, one in a file valkey://user@host?passwordfile=/path)", s.Name)
	}
	s.Option.Username, s.Option.Password = user, password
	return nil
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
