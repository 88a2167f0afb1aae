package resp

import (
	"context"
	"errors"
	"net"
	"os"
)

// Link is a node's way to its server: a client library, set up so that no command is ever
// sent twice. It is safe for concurrent use. Nothing that is given to it is kept or changed
// when a method has returned.
type Link interface {
	// Do sends one command and waits for its reply, or until ctx is done. An Error of the
	// server is an error.
	Do(ctx context.Context, command Command) (Reply, error)
	// DoMulti sends commands over one connection, in one write if they fit into it, and
	// returns as many replies, which have errors of their own; an error of its own, and no
	// replies, if nothing was sent.
	DoMulti(ctx context.Context, commands ...Command) ([]Reply, error)
	// Exchange is DoMulti for the requests of many callers: it has no context. It ends by itself
	// once the server has answered nothing for a few seconds. A server that answers one after the
	// other in that time is slow, and another connection would not be faster. It appends the replies
	// to some.
	Exchange(commands []Command, replies []Reply) []Reply
	// Identify sends INFO and another command over one connection, and passes the replies
	// to accept, with the number of the connection.
	Identify(ctx context.Context, and Command, accept func(info string, other Reply, dial uint64) error) error
	// Dial returns the number of the newest connection. What has another number may lead
	// to another server.
	Dial() uint64
	// Up reports whether the newest connection has this number, and was not lost.
	Up(dial uint64) bool
	// Renew says of the newest connection, if it has this number, that its server seems to have been
	// replaced. A connection that is not quite new is closed, since the address may lead elsewhere by
	// now.
	Renew(dial uint64)
	// Pooled reports whether there are several connections, of which any may carry a command. A
	// number says little then: each answer has to prove whose it is.
	Pooled() bool
	// Remote returns the address of the server, without a port, or "" if that is not known
	// or there is no network in between.
	Remote() string

	// Subscribe passes on the messages of a channel, until ctx is done or the subscription
	// is lost, and then returns why. It calls confirmed, which does not block, when the
	// server has confirmed.
	Subscribe(ctx context.Context, channel string, confirmed func(), message func(string)) error

	// Spawn starts a goroutine that Close waits for. Once the link is closed it returns an
	// error that says so, and starts nothing.
	Spawn(f func()) error
	// Life returns a context that ends when Close is called. Its cause says so.
	Life() context.Context
	// Close ends all that is under way, with an unknown outcome, and waits for the
	// goroutines. A second Close does nothing.
	Close()
}

// Plain returns a network's error without the address, which is the node's name, and without the
// names of system calls. Other errors are returned as they are.
func Plain(err error) error {
	var operation *net.OpError
	if !errors.As(err, &operation) {
		return err
	}
	text := operation.Err.Error()
	var call *os.SyscallError
	if errors.As(operation.Err, &call) {
		text = call.Err.Error()
	}
	return plain{err, text}
}

type plain struct {
	error
	text string
}

func (p plain) Error() string { return p.text }

func (p plain) Unwrap() error { return p.error }
