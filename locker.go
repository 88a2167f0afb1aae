package fenlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// Locker takes locks on one quorum group. Make one per group and process, with
// New, and share it: it is safe for concurrent use.
type Locker struct {
	config  Config
	client  *shell.Client
	running running // goroutines that wait for nodes
	events  events
	adopted sync.Map // the holders of locks that are, or are being, adopted
	places  *places  // of the nodes
	close   func()   // ends what may come late
}

// New makes a Locker. It sends nothing: a node that is down now is no reason to fail. The error
// matches ErrInvalid; nodes of a New that failed have to be opened again, because some of them may
// have joined the group that was not made.
func New(config Config) (*Locker, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Locker{config: config, places: placesOf(config.Nodes)}
	l.running.closed, l.close = context.WithCancel(context.Background())
	began := time.Now()
	stopwatch := func() time.Duration { return time.Since(began) }
	l.events = events{observer: &l.config.Observer, clock: stopwatch, running: &l.running}
	c := shell.Config{Env: world{config.Clock}, NodeTimeout: config.NodeTimeout, Bound: binds(config.Nodes),
		Terms: shell.Terms{TTL: config.TTL, MaxHold: config.MaxHold, Label: config.Label},
		CannotNotify: func(i int, err error) {
			config.Logger.Warn("fenlock: a node cannot notify waiters, so they poll it", "node", config.Nodes[i].String(),
				"error", err)
		}, HealthChanged: func(h shell.HealthChange) { healthChanged(&l.config, h) }}
	c.Ails = func(i int) error {
		if a, ok := config.Nodes[i].Engine().(node.Ailing); ok {
			return a.Ails()
		}
		return nil
	}
	if tell := config.Observer.Request; tell != nil {
		c.Stopwatch = stopwatch
		c.Answered = func(peer int, op node.Op, a node.Answer, err error, took time.Duration) {
			tell(RequestEvent{Node: config.Nodes[peer].String(), Op: op.String(), Took: took, Status: a.Status, Err: err})
		}
	}
	group := node.Group{Nodes: config.Nodes, MaxTTL: config.MaxTTL, New: config.NewServers,
		Warn: func(n node.Node, message string) {
			config.Logger.Warn(message, "node", n.String())
		}}
	for _, n := range config.Nodes {
		if r, ok := n.Engine().(node.Rejoiner); ok {
			if err := r.Join(group); err != nil {
				return nil, fmt.Errorf("%w: node %s: %w", ErrInvalid, n, err)
			}
		}
		c.Peers = append(c.Peers, newPeer(n, &l.running))
	}
	if n := len(config.Nodes); n%2 == 0 {
		config.Logger.Warn(fmt.Sprintf(
			"fenlock: an even number of nodes: %d nodes work while %d answer, so they survive the loss of %d, as %d do",
			n, node.Quorum(n), n-node.Quorum(n), n-1))
	}
	l.client = shell.NewClient(c)
	return l, nil
}

// Nodes returns the nodes of the group, in the order of Config.Nodes. They are the Locker's, which
// closes them.
func (l *Locker) Nodes() []Node { return slices.Clone(l.config.Nodes) }

// Close waits until the requests under way have ended, and closes the nodes, also those that
// another Locker shares. Requests that clean up after a failed attempt are waited for, too. That
// takes about two node timeouts at most or, while the nodes are behind, one and three tenths of the
// TTL. A server that was not reached yet is not waited for. Locks that are still held are not
// released: they end with their leases. Operations after Close fail with ErrClosed; a second Close
// does nothing.
func (l *Locker) Close() error {
	idle := make(chan struct{})
	l.client.Close(func() { close(idle) })
	for _, n := range l.config.Nodes {
		if f, ok := n.Engine().(node.Finisher); ok {
			f.Finish()
		}
	}
	<-idle
	l.close()
	l.running.Wait()
	var errs []error
	for _, n := range l.config.Nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// Check returns what Acquire would refuse a name and options for, before anything is sent: nil, or
// an error that matches ErrInvalid. Use it in code that is given them long before it takes a lock,
// where the error would go unnoticed. A nil Locker is refused as well.
func (l *Locker) Check(name string, opts ...Option) error {
	if l == nil {
		return invalidf("the Locker is nil")
	}
	if _, err := l.config.optionsOf(opts); err != nil {
		return err
	}
	return CheckName(name)
}
