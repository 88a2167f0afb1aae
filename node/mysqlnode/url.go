package mysqlnode

import (
	"context"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fenlock/fenlock/node/engine"
)

// server is what a node's URL says.
type server struct {
	name   string // for people, and what all clients of its group call the node
	config *mysql.Config
}

// dialTimeout bounds a connection to a server that does not answer, where the context of
// a request does not.
const dialTimeout = 5 * time.Second

// longestLock is for how many seconds a statement waits for a table that another session has
// locked. The default is a day.
const longestLock = "10"

var form = engine.Form{Engine: "mysqlnode", Example: "mysql://user:password@host:port/database",
	Schemes: []string{"mysql", "mariadb"}, Port: "3306"}

// parseURL reads a node's URL. The driver's own form is another one, in which a setting
// can have a statement sent in several parts, or twice; none of these is to be had here.
func parseURL(raw string) (*server, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	database := strings.TrimPrefix(u.Path, "/")
	switch {
	case database == "" || strings.ContainsAny(database, "/ \x00"):
		return nil, u.Invalidf("there is no database: the form is %s", form.Example)
	case u.User == "":
		return nil, u.Invalidf("there is no user: the form is %s", form.Example)
	case u.Verifies() && u.Get("tls") == "off":
		return nil, u.Invalidf("there are parameters of TLS and tls=off")
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName, c.Timeout, c.User = "tcp", u.Hosts[0], database, dialTimeout, u.User
	c.Logger = &mysql.NopLogger{} // its errors are returned as well
	c.DialFunc = dial
	// Statements that no caller waits for must not pile up on the server, where a table is locked.
	c.Params = map[string]string{"lock_wait_timeout": longestLock}
	// TLS comes with verification: a certificate of one's own is a ca too.
	secure := u.Get("tls") == "on" || u.Verifies() || !u.Local() && u.Get("tls") != "off"
	renew := func(c *mysql.Config) (err error) { // new passwords and certificates need no restart
		if c.Passwd, err = u.Password(); err == nil && secure {
			c.TLS, err = u.TLSConfig()
		}
		return err
	}
	if err := renew(c); err != nil {
		return nil, u.Invalidf("%v", err)
	}
	c.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error { return renew(c) }))
	s := &server{name: u.Name, config: c}
	if s.name == "" {
		s.name = c.Addr + "/" + database
	}
	return s, nil
}
