package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// mostHandshake bounds the answer to a Connect: it has 40 bytes or so.
const mostHandshake = 1024

// connect connects to a server, and begins a session or goes on with the one there is.
func (s *Session) connect(server string, answer time.Duration, humble bool) (*Link, error) {
	ctx, cancel := context.WithTimeout(s.life, answer)
	defer cancel()
	conn, err := s.config.Dial(ctx, server)
	if err = explain(err); err != nil {
		if named := new(net.OpError); !errors.As(err, &named) || named.Op != "dial" { // those have the address
			err = fmt.Errorf("%s: %w", server, err)
		}
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	link, err := s.handshake(conn, server, humble)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", server, explain(err))
	}
	conn.SetDeadline(time.Time{})
	link.start()
	return link, nil
}

// errRefused is of a server that says nothing: they all do so in all of these cases.
var errRefused = errors.New("it closed the connection instead of beginning a session: it has no quorum, or is read-only, or behind the others, or has too many connections from this address (maxClientCnxns), or wants TLS")

// explain says what a person can do. How it shows that the server has closed the connection depends
// on the moment: at the end of the dial, while writing, or while reading.
func explain(err error) error {
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return errRefused
		}
	}
	if errors.Is(err, wire.ErrMalformed) {
		return engine.Explain(err, "another kind of server listens there: correct the port", false)
	}
	return engine.Explain(err, "", false)
}

// handshake says what this client has seen, so that a server that knows less refuses it.
// With humble it does not: if all servers do, for long, they may have lost their memory.
func (s *Session) handshake(conn net.Conn, server string, humble bool) (*Link, error) {
	credentials := ""
	if s.config.Digest != nil {
		var err error
		if credentials, err = s.config.Digest(); err != nil {
			return nil, err
		}
	}
	timeout, began := s.config.Timeout(), clock.Now()
	hello := wire.Connect{LastZxid: s.zxid, Timeout: int32(timeout.Milliseconds()), Session: s.id,
		Password: s.password}
	if humble {
		hello.LastZxid = 0
	}
	if _, err := conn.Write(wire.AppendConnect(nil, hello)); err != nil {
		return nil, err
	}
	message, err := receive(conn, mostHandshake)
	if err != nil {
		return nil, err
	}
	c, err := wire.ReadConnected(message)
	if err != nil {
		return nil, err
	}
	if c.Session == 0 {
		s.id, s.password = 0, nil
		return nil, errors.New("the session has expired")
	}
	if c.ReadOnly {
		return nil, errors.New("the server is in read-only mode: it is cut off from the others")
	}
	if c.Timeout <= 0 {
		return nil, wire.ErrMalformed
	}
	s.id, s.password = c.Session, c.Password
	link := &Link{conn: conn, server: server, session: s,
		ID: c.Session, Fresh: hello.Session == 0, Timeout: time.Duration(c.Timeout) * time.Millisecond, heardAt: began,
		done: make(chan struct{}), wakeup: make(chan struct{}, 1)}
	if humble {
		s.unproven.Store(max(s.zxid, s.unproven.Load()))
		s.zxid = 0
	}
	if s.config.Digest == nil {
		return link, nil
	}
	if _, err := conn.Write(wire.Append(nil, wire.XidAuth,
		wire.Auth{Scheme: "digest", Credentials: credentials})); err != nil {
		return nil, err
	}
	if message, err = receive(conn, mostHandshake); err != nil {
		return nil, err
	}
	h, _, err := wire.ReadHeader(message)
	if err == nil && h.Err != wire.OK {
		err = h.Err
	}
	if err == nil && h.Xid != wire.XidAuth {
		err = wire.ErrMalformed
	}
	return link, err
}

// receive reads one message. Nothing is allocated for what has not been sent.
func receive(from io.Reader, most uint32) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > most {
		return nil, fmt.Errorf("%w (a message of %d bytes)", wire.ErrMalformed, n)
	}
	const step = 64 << 10
	message := make([]byte, 0, min(n, step))
	for uint32(len(message)) < n {
		more := min(n-uint32(len(message)), step)
		message = append(message, make([]byte, more)...)
		if _, err := io.ReadFull(from, message[len(message)-int(more):]); err != nil {
			return nil, err
		}
	}
	return message, nil
}
