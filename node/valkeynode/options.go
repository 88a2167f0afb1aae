package valkeynode

import (
	"context"

	"github.com/fenlock/fenlock/node/respnode"
)

// DefaultPrefix is put before a lock's name to make its key.
const DefaultPrefix = respnode.DefaultPrefix

// Option changes how Open, New or OpenGuard sets up what it opens.
type Option func(*options)

type options struct {
	prefix      string
	prefixSet   bool
	name        *string
	witness     *int
	credentials func(context.Context) (user, password string, err error)
}

// WithPrefix sets what is put before a lock's name to make its key on the server, instead of
// DefaultPrefix. All clients of a group must agree. With "" the key is the name itself and the
// value is opaque, which is the format of other Redlock clients. Their locks and fenlock's then
// exclude each other. A guard has no prefix.
func WithPrefix(prefix string) Option {
	return func(o *options) { o.prefix, o.prefixSet = prefix, true }
}

// WithName sets what all clients of the group call a node of New, where they reach it by
// different addresses. A URL has the parameter name for it.
func WithName(name string) Option { return func(o *options) { o.name = &name } }

// WithWitness sets how many replicas must have what the server promises before it counts, whichever
// they are, as the URL's parameter witness does. 0, the default, means all that the server has.
// With a negative number it asks none: after a failover, the old primary may go on to grant locks.
func WithWitness(replicas int) Option { return func(o *options) { o.witness = &replicas } }

// WithCredentials has a function asked for user and password before each connection is
// made, so that they may change while the program runs; the URL then has neither. With
// the user "" the password is the default user's, and with both "" there is no
// authentication. A connection that is there is kept when they change.
//
// The function is called by one connection at a time, but those of several nodes may call it at
// once. Its context ends when the connection is given up, after two seconds at most. What takes
// longer, such as a secrets service far away, belongs into a cache that is kept fresh beside it.
// Its error is the reason why the node cannot be used, until the next attempt, and must have no
// secret in it. The passwords that it has returned are kept out of all other errors.
//
// For a password in a file no function is needed: the URL's parameter passwordfile.
func WithCredentials(credentials func(ctx context.Context) (user, password string, err error)) Option {
	return func(o *options) { o.credentials = credentials }
}

// apply returns the options that were given.
func apply(with []Option) options {
	o := options{prefix: DefaultPrefix}
	for _, set := range with {
		set(&o)
	}
	return o
}
