package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// How long an engine does not listen again after a failure: twice as long after each, give
// or take a quarter.
const (
	minRelisten = 50 * time.Millisecond
	maxRelisten = 2 * time.Second
)

// errEnded is why a client does not listen any more, for all that is known.
var errEnded = errors.New("listening has ended")

// Listener is a client that hears of notifications: what the Listen of all engines has
// beside the store. It is safe for concurrent use. Listen makes one.
type Listener struct {
	Client string // the identity with which the names of its waiters begin: see node.Place

	notify   func(notice string)
	first    chan error
	answered atomic.Bool // Listen has returned, or is about to
	begins   atomic.Bool // Begun was called in this attempt
}

// Life is what Listen needs of a node's life: a *Lifetime, or what has one.
type Life interface {
	Spawn(f func()) error
	Life() context.Context
}

// Listen implements node.Queuer. It calls attend again and again, with a pause between two
// calls, until the node's life ends. Attend makes the client reachable, calls Begun, and
// tells what it hears, until it fails or its context, the life, is done. Listen
// returns when the client is reachable, with the error of the first attempt, or with that of ctx;
// attempts go on after an error. The error matches node.ErrInvalid if the client is no identity.
func Listen(ctx context.Context, life Life, client string, notify func(notice string),
	attend func(context.Context, *Listener) error) error {
	if err := rule.CheckClient(client); err != nil {
		return err
	}
	l := &Listener{Client: client, notify: notify, first: make(chan error, 1)}
	if err := life.Spawn(func() { l.run(life.Life(), attend) }); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.answer(ctx.Err()) })()
	return <-l.first
}

func (l *Listener) run(life context.Context, attend func(context.Context, *Listener) error) {
	wait := minRelisten
	for life.Err() == nil {
		l.begins.Store(false)
		err := attend(life, l)
		if life.Err() != nil {
			break
		}
		if l.begins.Load() {
			wait = minRelisten
		}
		if err == nil {
			err = errEnded
		}
		l.answer(err)
		Pause(life, time.Duration((0.75+rand.Float64()/2)*float64(wait)))
		wait = min(2*wait, maxRelisten)
	}
	l.answer(context.Cause(life))
}

// answer has Listen return, unless it has, and reports which.
func (l *Listener) answer(err error) (first bool) {
	if first = l.answered.CompareAndSwap(false, true); first {
		l.first <- err
	}
	return first
}

// Answered reports whether Listen has returned, so that nothing else tells of a failure.
func (l *Listener) Answered() bool { return l.answered.Load() }

// Begins reports whether Begun was called in this attempt.
func (l *Listener) Begins() bool { return l.begins.Load() }

// Begun says that the client is reachable from now on. Where it was reachable before, it is told
// that notifications may have been missed.
func (l *Listener) Begun() {
	l.begins.Store(true)
	if !l.answer(nil) {
		l.Tell("")
	}
}

// Tell passes on a notice, "" if some may have been missed. What a store says is not trusted: a
// text that is no notice for a waiter of this client is dropped.
func (l *Listener) Tell(notice string) {
	n, is := node.ParseNotice(notice)
	if notice == "" || is && ClientOf(notice) == l.Client && rule.CheckPlace(node.Place{Waiter: n.Waiter}) == nil {
		l.notify(notice)
	}
}

// ClientOf returns the client with whose identity a waiter, or a notice for it, begins.
func ClientOf(waiter string) string {
	client, _, _ := strings.Cut(waiter, ":")
	return client
}
