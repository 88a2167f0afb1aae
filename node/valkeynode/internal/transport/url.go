package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/valkey-io/valkey-go"
)

// Server is what a node's URL says of a server, and how to connect to it. What comes from
// files is read anew for each connection, so that it can be changed while a program runs.
type Server struct {
	Name   string // for people, with no password in it
	Member string // what all clients of its group call the node
	Option valkey.ClientOption
	// Witness is that of respnode.Server: so many replicas, 0 for all, or negative for none.
	Witness int

	// Credentials returns user and password for a connection. Nil: they are in Option.
	Credentials func(ctx context.Context) (user, password string, err error)
	TLS         func() (*tls.Config, error) // nil: without
	// dial makes a connection, with TLS if there is to be; nil: as usual.
	dial func(ctx context.Context, address string, dialer *net.Dialer) (net.Conn, error)
}

var form = engine.Form{Engine: "valkeynode", Example: "valkey://user:password@host:port/db",
	Schemes: []string{"valkey", "redis"}, Secure: []string{"valkeys", "rediss"}, Socket: "unix", Port: "6379"}

// ParseURL reads a node's URL. valkey.ParseURL would do most of it. But it repeats passwords in its
// errors, ignores parameters that it does not know, and lets a parameter turn the verification of
// certificates off.
func ParseURL(raw string) (*Server, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	s.Option.InitAddress = u.Hosts
	db := strings.TrimPrefix(u.Path, "/")
	if u.Scheme == form.Socket {
		s.Option.InitAddress, db = []string{u.Path}, u.Get("db")
	} else if u.Get("db") != "" {
		return nil, u.Invalidf("the database is written as the path, /1 for example")
	}
	if s.Option.SelectDB, err = strconv.Atoi(cmp.Or(db, "0")); err != nil || s.Option.SelectDB < 0 {
		return nil, u.Invalidf("the database is not a number")
	}
	if s.Witness, err = witness(u.Get("witness")); err != nil {
		return nil, u.Invalidf("%v", err)
	}
	s.call(u.Scheme, u.Name)
	s.Option.Username = u.User
	switch {
	case u.Get("passwordfile") != "":
		s.Credentials = func(context.Context) (string, string, error) {
			password, err := u.Password()
			return u.User, password, err
		}
	case u.User != "" && !u.HasPassword():
		return nil, u.Invalidf("there is a user but no password (a password alone is written valkey://:password@host, one in a file valkey://user@host?passwordfile=/path)")
	default:
		if s.Option.Password, err = u.Password(); err != nil {
			return nil, err
		}
	}
	if u.TLS {
		s.TLS = u.TLSConfig
	}
	return s, nil
}

// call sets what people call the node, and what its group does: name, or "" for its address.
// Whether it is reached with TLS, and by which of the schemes, makes no other server.
func (s *Server) call(scheme, name string) {
	address := s.Option.InitAddress[0]
	if s.Option.SelectDB != 0 {
		address = fmt.Sprintf("%s/%d", address, s.Option.SelectDB)
	}
	s.Name, s.Member = scheme+"://"+address, cmp.Or(name, address)
}

// mostWitnesses is more than a server has replicas.
const mostWitnesses = 1000

// witness reads the parameter of that name.
func witness(text string) (int, error) {
	switch text {
	case "":
		return 0, nil
	case "off":
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostWitnesses {
		return 0, errors.New("witness is off, or a number of replicas from 1")
	}
	return n, nil
}
