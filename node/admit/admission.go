package admit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
)

const (
	// tryTimeout bounds one try.
	tryTimeout = 8 * time.Second
	// askTimeout bounds the others' answers, which a try may need twice. Two nodes that wait for
	// each other must not use up the time of the try.
	askTimeout = tryTimeout / 4
	// retryPause is the shortest time from a try that failed for want of others to the next one.
	retryPause = 200 * time.Millisecond
	// Pause is for how long at most an engine's finding that a store is out is believed. Another
	// client may have it admitted meanwhile: operations find that by themselves.
	Pause = time.Second
)

// Admission has the store of one node admitted, for one client. It is safe for concurrent use. Make
// one with New. It is no operation's business as long as the store votes. An engine asks Admit when
// the store has refused an operation for want of a mark.
type Admission struct {
	store Store
	self  node.Node
	pause time.Duration

	joined atomic.Pointer[membership] // nil until Join
	server atomic.Pointer[string]     // as it was seen last
	used   atomic.Bool                // see Used

	life   context.Context
	finish context.CancelFunc
	tries  sync.WaitGroup

	mu      sync.Mutex
	running *run // nil: no try is under way
	last    node.Absence
	lastErr error
	ended   time.Time // when the last try ended
	until   time.Time // last and lastErr are believed
}

// membership is a group that was joined.
type membership struct {
	node.Group
	terms   Terms
	earlier []*Admission // of nodes of the group that come before this one
}

type run struct {
	done chan struct{}
	why  node.Absence
	err  error
}

// New returns the admission of an engine's node. Pause is for how long at most a finding is
// believed, usually the constant; 0 asks the store each time.
func New(self node.Node, store Store, pause time.Duration) *Admission {
	a := &Admission{store: store, self: self, pause: pause}
	a.life, a.finish = context.WithCancel(context.Background())
	return a
}

// Join sets the group, once; the same group again does nothing. It is node.Rejoiner's, without the
// engine's name in its error.
func (a *Admission) Join(g node.Group) error {
	to := &membership{Group: g, terms: TermsOf(g)}
	for _, n := range g.Nodes {
		if n.Engine() == a.self.Engine() {
			break
		}
		if other, ok := n.Engine().(interface{ Admission() *Admission }); ok {
			to.earlier = append(to.earlier, other.Admission())
		}
	}
	if a.joined.CompareAndSwap(nil, to) {
		return nil
	}
	same := func(a, b node.Node) bool { return a.Engine() == b.Engine() } // through wrappers
	if old := a.joined.Load(); old.MaxTTL != g.MaxTTL || !slices.EqualFunc(old.Nodes, g.Nodes, same) {
		return fmt.Errorf("it belongs to another group already: %d nodes with the MaxTTL %v, and this one has %d with %v",
			len(old.Nodes), old.MaxTTL, len(g.Nodes), g.MaxTTL)
	}
	a.joined.Store(to)
	return nil
}

// Joined reports whether Join was called. A client that only looks is in no group.
func (a *Admission) Joined() bool { return a.joined.Load() != nil }

// Terms returns what the clients of the joined group agree on, zero before Join.
func (a *Admission) Terms() Terms {
	if to := a.joined.Load(); to != nil {
		return to.terms
	}
	return Terms{}
}

// Check returns nil if this client may use a store that has these terms recorded. A client that is
// in no group may use any.
func (a *Admission) Check(recorded Terms) error {
	if recorded != (Terms{}) {
		a.Used()
	}
	if to := a.joined.Load(); to != nil {
		return recorded.Check(to.terms)
	}
	return nil
}

// Used notes that the store was seen to be in use. If it has nothing recorded later, it has lost
// that: Group.New is not believed of it any more. For engines that call neither Check nor Admit as
// long as the store votes.
func (a *Admission) Used() {
	if !a.used.Load() { // which all operations share
		a.used.Store(true)
	}
}

// Serves notes which server the node leads to, as node.Registers.Server, and refuses one that is
// another node of the group already: it would vote twice. The error matches node.ErrMisconfigured.
func (a *Admission) Serves(server string) error {
	if last := a.server.Load(); last == nil || *last != server {
		seen := server // allocated here, not by each call
		a.server.Store(&seen)
	}
	to := a.joined.Load()
	if to == nil {
		return nil
	}
	for _, other := range to.earlier {
		if of := other.server.Load(); of != nil && *of == server {
			return fmt.Errorf("%w: this is the same server as the node %s: a server has one vote", node.ErrMisconfigured,
				other.self)
		}
	}
	return nil
}

// Warn tells the group, in one line, what no answer says.
func (a *Admission) Warn(message string) {
	if to := a.joined.Load(); to != nil && to.Group.Warn != nil {
		to.Group.Warn(a.inGroup(to), message)
	}
}

// inGroup returns the node as its group has it, maybe within a wrapper.
func (a *Admission) inGroup(to *membership) node.Node {
	if i := slices.IndexFunc(to.Nodes, func(n node.Node) bool { return n.Engine() == a.self.Engine() }); i >= 0 {
		return to.Nodes[i]
	}
	return a.self
}

// Admit tries to have the store admitted, which has just refused to promise something. The zero
// Absence says that the store votes now, as far as this client knows: the operation can be sent
// once more. The error is for what waiting does not mend, or context.Canceled after Finish; nothing
// was executed then.
//
// One try at a time is under way, however many callers wait for it. It goes on when they give up.
func (a *Admission) Admit(ctx context.Context) (node.Absence, error) {
	to := a.joined.Load()
	if to == nil {
		return node.Absence{Cause: node.NotJoined}, nil
	}
	a.mu.Lock()
	if err := a.life.Err(); err != nil {
		a.mu.Unlock()
		return node.Absence{}, err
	}
	r := a.running
	if r == nil {
		if now := time.Now(); now.Before(a.until) {
			why := a.last
			if why.Wait > 0 {
				why.Wait = max(why.Wait-now.Sub(a.ended), 1)
			}
			err := a.lastErr
			a.mu.Unlock()
			return why, err
		}
		r = &run{done: make(chan struct{})}
		a.running = r
		a.tries.Add(1)
		go a.try(r, to)
	}
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.why, r.err
	case <-ctx.Done():
		return node.Absence{Cause: node.UnderWay, Detail: ctx.Err().Error()}, nil
	case <-a.life.Done():
		return node.Absence{}, a.life.Err()
	}
}

// try drives one Try.
func (a *Admission) try(r *run, to *membership) {
	defer a.tries.Done()
	ctx, cancel := context.WithTimeout(a.life, tryTimeout)
	defer cancel()
	t := Begin(Client{Terms: to.terms, Nodes: len(to.Nodes), New: to.New && !a.used.Load()})
	for t.Step != StepEnd {
		if err := a.step(ctx, t, to); err != nil {
			t.Failed(err)
		}
	}
	if t.Warning != "" {
		a.Warn(t.Warning)
	}
	r.why, r.err = t.Absence, t.Err
	if t.Facts.Recorded || r.why == (node.Absence{}) && r.err == nil {
		a.Used()
	}
	if a.life.Err() != nil {
		r.why, r.err = node.Absence{}, context.Canceled
	}
	a.mu.Lock()
	a.running, a.last, a.lastErr, a.ended = nil, r.why, r.err, time.Now()
	a.until = time.Time{}
	if believed := min(max(r.why.Wait, retryPause), a.pause); r.why != (node.Absence{}) || r.err != nil {
		a.until = a.ended.Add(believed)
	}
	a.mu.Unlock()
	close(r.done)
}

// step carries out one step of a try.
func (a *Admission) step(ctx context.Context, t *Try, to *membership) error {
	switch t.Step {
	case StepLook:
		f, err := a.store.Facts(ctx)
		if err == nil && f.Server != "" {
			err = a.Serves(f.Server)
		}
		if err != nil {
			return err
		}
		t.Looked(f)
	case StepNote:
		done, err := a.store.Note(ctx, t.Facts)
		if err != nil {
			return err
		}
		t.Noted(done)
	case StepAsk:
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		t.Asked(rebuild.Ask(ask, to.Group, a.self))
	case StepRaise:
		if err := a.store.Raise(ctx, t.Facts, t.Tokens); err != nil {
			return err
		}
		t.Raised()
	case StepMark:
		done, err := a.store.Mark(ctx, t.Facts, to.terms, t.Empty)
		if err != nil {
			return err
		}
		t.Marked(done)
	}
	return nil
}

// Noted has the loss of a store noted that is out, if this client is in a group and no client has
// done so. It is for engines in which a memory has a name only from then on. It returns the facts
// after that.
func (a *Admission) Noted(ctx context.Context) (Facts, error) {
	f, err := a.store.Facts(ctx)
	to := a.joined.Load()
	if err != nil || to == nil || Decide(f, Client{Terms: to.terms, Nodes: len(to.Nodes)}, nil, false).Do != Note {
		return f, err
	}
	if _, err := a.store.Note(ctx, f); err != nil {
		return f, err
	}
	return a.store.Facts(ctx)
}

// Finish ends all waiting for an admission, and begins none: node.Finisher's half.
func (a *Admission) Finish() { a.finish() }

// Close is Finish, and waits for the try that is under way. The store must still answer, or fail.
func (a *Admission) Close() {
	a.mu.Lock()
	a.finish()
	a.mu.Unlock()
	a.tries.Wait()
}
