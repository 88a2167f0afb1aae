package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
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
	Tag     string // of a cluster: the hash tag of all keys. "": the server is none's member

	// Credentials returns user and password for a connection. Nil: they are in Option.
	Credentials func(ctx context.Context) (user, password string, err error)
	TLS         func() (*tls.Config, error) // nil: without
	sentinels   *sentinels                  // nil: the address is in Option
	// dial makes a connection, with TLS if there is to be; nil: as usual.
	dial func(ctx context.Context, address string, dialer *net.Dialer) (net.Conn, error)
	// tlsOf is TLS for one of several hosts; nil: as for all.
	tlsOf func(address string) (*tls.Config, error)
}

var form = engine.Form{Engine: "valkeynode", Example: "valkey://user:password@host:port/db",
	Schemes: []string{"valkey", "redis"}, Secure: []string{"valkeys", "rediss"}, Socket: "unix", Port: "6379"}

var sentinelForm = engine.Form{Engine: "valkeynode",
	Example: "valkey-sentinel://user:password@host:26379,host:26379/primary",
	Schemes: []string{"valkey-sentinel", "redis-sentinel"}, Secure: []string{"valkeys-sentinel", "rediss-sentinel"},
	Port: "26379", Several: true}
var clusterForm = engine.Form{Engine: "valkeynode", Example: "valkey-cluster://user:password@host:port,host:port/tag",
	Schemes: []string{"valkey-cluster", "redis-cluster"}, Secure: []string{"valkeys-cluster", "rediss-cluster"},
	Port: "6379", Several: true}

// DefaultTag is the hash tag of a cluster's node whose URL names none.
const DefaultTag = "fenlock"

// ParseURL reads a node's URL. valkey.ParseURL would do most of it. But it repeats passwords in its
// errors, ignores parameters that it does not know, and lets a parameter turn the verification of
// certificates off.
func ParseURL(raw string) (*Server, error) {
	form := form
	scheme, _, _ := strings.Cut(strings.ToLower(raw), "://")
	switch {
	case strings.HasSuffix(scheme, "-sentinel"):
		form = sentinelForm
	case strings.HasSuffix(scheme, "-cluster"):
		form = clusterForm
	}
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	s.Option.InitAddress = u.Hosts
	db := strings.TrimPrefix(u.Path, "/")
	if form.Port != sentinelForm.Port && (u.Get("sentineluser") != "" || u.Get("sentinelpasswordfile") != "") {
		return nil, u.Invalidf("there are parameters of sentinels: the form is %s", sentinelForm.Example)
	}
	switch {
	case form.Port == sentinelForm.Port:
		db, err = s.follow(u, db)
	case form.Several:
		db, err = "", s.join(u, db)
	}
	if err != nil {
		return nil, err
	}
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
	switch {
	case s.sentinels != nil:
		address = strings.Join(s.sentinels.addresses, ",") + "/" + s.sentinels.master
	case s.Tag != "":
		// Clients may name the members of a cluster in any order.
		address = strings.Join(slices.Sorted(slices.Values(s.Option.InitAddress)), ",") + "/" + s.Tag
	}
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

// follow has the sentinels of a URL asked for the server. It returns the database, which follows
// the primary's name in the path.
func (s *Server) follow(u *engine.URL, path string) (db string, err error) {
	master, db, _ := strings.Cut(path, "/")
	if !engine.IsMember(master) {
		return "", u.Invalidf("the primary's name is missing: it is the path, as the sentinels have it (%s)",
			sentinelForm.Example)
	}
	file := u.Get("sentinelpasswordfile")
	if u.Get("sentineluser") != "" && file == "" {
		return "", u.Invalidf("there is a sentineluser but no sentinelpasswordfile")
	}
	way := &Server{Credentials: credentialsOf(u.Get("sentineluser"), file)}
	if file != "" {
		if _, _, err := way.Credentials(context.Background()); err != nil {
			return "", u.Invalidf("%v", err)
		}
	}
	s.Option.InitAddress = u.Hosts[:1]
	if u.TLS {
		s.tlsOf = ofHost(u)
		way.tlsOf = s.tlsOf
	}
	s.sentinels = &sentinels{addresses: slices.Sorted(slices.Values(u.Hosts)), master: master, way: way}
	return db, nil
}

// join has a node be the slot of a hash tag in the cluster of the URL's hosts.
func (s *Server) join(u *engine.URL, tag string) error {
	if u.Get("db") != "" {
		return u.Invalidf("a cluster has one database: there is no parameter db")
	}
	if tag != "" && strings.Trim(tag, "0123456789") == "" {
		return u.Invalidf("a cluster has one database; the path is the hash tag of all keys, such as /%s", DefaultTag)
	}
	s.Tag = cmp.Or(tag, DefaultTag)
	if !engine.IsTag(s.Tag) {
		return u.Invalidf("the path is the hash tag of all keys, such as /%s: at most 64 letters, digits, dots, hyphens and underscores",
			DefaultTag)
	}
	if u.TLS {
		s.tlsOf = ofHost(u)
	}
	return nil
}

// ofHost returns TLS for any host of a URL. The certificate is for that host, unless the URL has
// the parameter servername.
func ofHost(u *engine.URL) func(address string) (*tls.Config, error) {
	return func(address string) (*tls.Config, error) {
		config, err := u.TLSConfig()
		if err == nil && u.Get("servername") == "" {
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		return config, err
	}
}
