package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/valkey-io/valkey-go"
)

const (
	ringScale   = 8   // the client library's ring has 2^ringScale places
	maxInFlight = 200 // with a context; fewer, so that it is never full, with the pipelines either

	writeBuffer = 32 << 10 // a whole batch is written at once; replies are short

	// How soon a connection is closed whose other end is silent, where nothing was asked: after a
	// ping. Where something was, silence.go sees to it.
	pingInterval = 5 * time.Second // of an idle connection; each costs both ends more than a waiter does
	connTimeout  = 2 * time.Second // of a ping, and of all that is said when a connection is made
)

var errNotYet = errors.New("not connected yet")

// newClient sets the client library up as one pipelined connection, without
// retries: a request that is sent twice could be executed twice. Each new
// connection goes through watch, and none is made when life has ended.
func newClient(s *Server, secrets *resp.Secrets, life context.Context, way *route,
	watch func(*framed) net.Conn) (valkey.Client, error) {
	opt := s.Option
	opt.InitAddress = opt.InitAddress[:1] // the way has the others
	network := "tcp"
	if strings.HasPrefix(opt.InitAddress[0], "/") {
		network = "unix"
	}
	secrets.Add(opt.Password)
	if s.sentinels != nil {
		s.sentinels.secrets = secrets
	}
	if given := opt.AuthCredentialsFn; given != nil {
		opt.AuthCredentialsFn = func(c valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			credentials, err := given(c)
			secrets.Add(credentials.Password)
			return credentials, err
		}
	}
	var newest atomic.Pointer[valkey.AuthCredentials]
	if s.Credentials != nil {
		// They were asked for before the server was dialled: here is no context.
		opt.AuthCredentialsFn = func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
			return *newest.Load(),
				nil
		}
	}
	var opened atomic.Bool
	opt.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (conn net.Conn,
		err error) {
		// NewClient dials at once. It must not: Open has no context to bound it.
		if !opened.Load() {
			return nil, errNotYet
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		if s.sentinels != nil {
			if address, err = s.sentinels.locate(ctx); err != nil {
				return nil, err
			}
		}
		if s.Credentials != nil {
			user, password, err := s.Credentials(ctx)
			if err != nil {
				return nil, fmt.Errorf("no credentials: %w", err)
			}
			secrets.Add(password)
			newest.Store(&valkey.AuthCredentials{Username: user, Password: password})
		}
		connect := func(address string) (net.Conn, error) {
			conn, err := s.connect(ctx, network, address, dialer)
			if err != nil {
				return nil, err
			}
			return watch(conn), nil
		}
		if way == nil {
			return connect(address)
		}
		return way.dial(ctx, connect)
	}
	client, err := valkey.NewClient(pipelined(opt))
	opened.Store(true)
	if client == nil {
		return nil, err
	}
	return client, nil
}

// connect makes a connection to an address.
func (s *Server) connect(ctx context.Context, network, address string, dialer *net.Dialer) (*framed, error) {
	if s.dial != nil {
		// What is at the other end, and how it is reached, is not known here.
		conn, err := s.dial(ctx, address, dialer)
		if err != nil {
			return nil, err
		}
		return newFramed(conn, resp.Plain), nil
	}
	d := &diagnosis{network: network, address: address}
	var err error
	switch {
	case s.tlsOf != nil:
		d.config, err = s.tlsOf(address)
	case s.TLS != nil:
		d.config, err = s.TLS()
	}
	if err != nil {
		return nil, err
	}
	conn, err := d.dial(ctx, dialer)
	if err != nil {
		return nil, err
	}
	return newFramed(conn, d.explain), nil
}

// askOnce asks a server at an address, on a connection of its own.
func (s *Server) askOnce(ctx context.Context, address string, secrets *resp.Secrets,
	command resp.Command) (resp.Reply, error) {
	opt := s.Option
	opt.InitAddress = []string{address}
	if s.Credentials != nil {
		var err error
		if opt.Username, opt.Password, err = s.Credentials(ctx); err != nil {
			return resp.Reply{}, err
		}
		secrets.Add(opt.Password)
	}
	var failed error // which the library wraps
	opt.DialCtxFn = func(_ context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := s.connect(ctx, "tcp", address, dialer)
		if failed = err; err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		return conn, nil
	}
	client, err := valkey.NewClient(pipelined(opt))
	if client != nil {
		defer client.Close()
	}
	if err = cmp.Or(failed, err); err != nil {
		return resp.Reply{}, err
	}
	reply := replyOf(client.Do(ctx, client.B().Arbitrary(command...).Build()))
	return reply, reply.Err()
}

// pipelined returns the options with how the library is to use a connection. FromOption
// refuses others.
func pipelined(opt valkey.ClientOption) valkey.ClientOption {
	opt.ForceSingleClient = true
	opt.DisableCache = true
	opt.DisableRetry = true
	opt.AlwaysPipelining = true
	opt.PipelineMultiplex = -1 // one connection: a release must not overtake an acquire
	opt.RingScaleEachConn = ringScale
	opt.ReadBufferEachConn, opt.WriteBufferEachConn = readBuffer, writeBuffer
	if opt.Dialer.Timeout == 0 {
		opt.Dialer.Timeout = time.Second
	}
	if opt.Dialer.KeepAlive == 0 {
		opt.Dialer.KeepAlive = pingInterval
	}
	opt.ConnWriteTimeout = connTimeout
	if opt.ClientName == "" {
		opt.ClientName = "fenlock"
	}
	if opt.ClientSetInfo == nil {
		opt.ClientSetInfo = valkey.DisableClientSetInfo
	}
	return opt
}
