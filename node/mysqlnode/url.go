package mysqlnode

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fenlock/fenlock/node/secretfile"
	"github.com/fenlock/fenlock/node/tlsfiles"
)

// parameters are the query parameters that a URL may have.
var parameters = []string{"passwordfile", "tls", "ca", "cert", "key", "servername", "name"}

// server is what a node's URL says.
type server struct {
	name    string // for people, and what all clients of its group call the node
	config  *mysql.Config
	changes []func(*mysql.Config) error // made for each connection
}

// dialTimeout bounds a connection to a server that does not answer, where the context of
// a request does not.
const dialTimeout = 5 * time.Second

// parseURL reads a node's URL. The driver's own form is another one, in which a setting
// can have a statement sent in several parts, or twice; none of these is to be had here.
func parseURL(raw string) (*server, error) {
	u, err := url.Parse(raw)
	// An @ behind the host means that a character of the password was taken for the end of
	// the host; whatever is printed of such a URL may be the password.
	if err != nil || u.Opaque != "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return nil, invalid("the node's URL cannot be parsed (the form is mysql://user:password@host:port/database; characters such as @ / : # in a password are written %%40 %%2F %%3A %%23)")
	}
	switch {
	case u.Scheme != "mysql" && u.Scheme != "mariadb":
		return nil, invalid("the node's URL has the scheme %q: mysql is known, mariadb is the same", u.Scheme)
	case strings.Contains(u.Host, ","):
		return nil, invalid("the node's URL has a comma in its host: each node has a URL of its own")
	case u.Hostname() == "":
		return nil, invalid("the node's URL has no host: the form is mysql://user:password@host:port/database")
	}
	port := cmp.Or(u.Port(), "3306")
	database := strings.TrimPrefix(u.Path, "/")
	address := net.JoinHostPort(u.Hostname(), port)
	s := &server{name: address + "/" + database}
	if p, err := strconv.Atoi(port); err != nil || p < 1 || p > 65535 {
		return nil, invalid("the node's URL %s has a port that does not exist: 1 to 65535 do", s.name)
	}
	if database == "" || strings.ContainsAny(database, "/ \x00") {
		return nil, invalid("the node's URL %s has no database: the form is mysql://user:password@host:port/database", s.name)
	}
	if u.Fragment != "" {
		return nil, invalid("the node's URL %s has a fragment (a # in a password is written %%23)", s.name)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, invalid("the parameters of the node's URL %s cannot be parsed", s.name)
	}
	for key, values := range query {
		if !slices.Contains(parameters, key) {
			return nil, invalid("the node's URL %s has the unknown parameter %q: known are %s", s.name, key, strings.Join(parameters, ", "))
		}
		if len(values) > 1 {
			return nil, invalid("the node's URL %s has the parameter %q twice", s.name, key)
		}
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName, c.Timeout = "tcp", address, database, dialTimeout
	c.Logger = &mysql.NopLogger{} // its errors are returned as well
	c.DialFunc = dial
	s.config = c
	if err := s.credentials(u, query); err != nil {
		return nil, err
	}
	if err := s.tls(u.Hostname(), query); err != nil {
		return nil, err
	}
	if query.Has("name") {
		if s.name = query.Get("name"); !isName(s.name) {
			return nil, invalid("the node's URL for %s has a name that is empty, has spaces or is *", address)
		}
	}
	return s, nil
}

// isName reports whether clients can call a node so.
func isName(name string) bool {
	return name != "" && name != anyMembers && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// credentials reads who the client is: a user and a password, or the file that has it.
func (s *server) credentials(u *url.URL, query url.Values) error {
	user := u.User.Username()
	password, _ := u.User.Password()
	file := query.Get("passwordfile")
	switch {
	case user == "":
		return invalid("the node's URL %s has no user: the form is mysql://user:password@host:port/database", s.name)
	case query.Has("passwordfile") && password != "":
		return invalid("the node's URL %s has a password and a passwordfile: one is enough", s.name)
	case query.Has("passwordfile"):
		if _, err := secretfile.ReadPassword(file); err != nil {
			return invalid("the node's URL %s: passwordfile: %v", s.name, err)
		}
		s.before(func(c *mysql.Config) (err error) {
			c.Passwd, err = secretfile.ReadPassword(file)
			return err
		})
	}
	s.config.User, s.config.Passwd = user, password
	return nil
}

// before has the configuration changed for each connection.
func (s *server) before(change func(*mysql.Config) error) {
	s.changes = append(s.changes, change)
	changes := s.changes
	s.config.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		for _, change := range changes {
			if err := change(c); err != nil {
				return fmt.Errorf("%w", err)
			}
		}
		return nil
	}))
}

// tls reads whether the connection is encrypted, and how the server is verified. There is
// no way to have TLS without verification: a certificate of one's own is a ca too.
func (s *server) tls(host string, query url.Values) error {
	ip := net.ParseIP(host)
	here := host == "localhost" || ip != nil && ip.IsLoopback()
	details := query.Has("ca") || query.Has("cert") || query.Has("key") || query.Has("servername")
	on := !here || details
	switch setting := query.Get("tls"); {
	case !query.Has("tls"):
	case setting == "on":
		on = true
	case setting == "off" && !details:
		on = false
	case setting == "off":
		return invalid("the node's URL %s has parameters of TLS and tls=off", s.name)
	default:
		return invalid("the node's URL %s has tls=%q: on and off are known", s.name, setting)
	}
	if !on {
		return nil
	}
	config, err := tlsfiles.Config(host, query)
	if err != nil {
		return invalid("the node's URL %s: %v", s.name, err)
	}
	s.config.TLS = config
	s.before(func(c *mysql.Config) (err error) { // renewed certificates need no restart
		c.TLS, err = tlsfiles.Config(host, query)
		return err
	})
	return nil
}
