package fenlockgocron

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
)

// ErrNotLeader: this process does not lead, or not any more.
var ErrNotLeader = errors.New("fenlockgocron: this process does not lead")

// Elector is a gocron.Elector: the host that holds the lock of its name runs the jobs. It is safe
// for concurrent use.
type Elector struct {
	locks Locks
	name  string
	opts  []fenlock.Option

	mu   sync.Mutex
	runs bool
	lead *term // nil: this process does not lead
}

// term is a time during which this process leads.
type term struct {
	ctx   context.Context // ends with it
	token fence.Token
	jobs  sync.WaitGroup // under Work
}

// NewElector returns an Elector of that name, which leads while it runs. The options are for
// the lock, fenlock.WithLabel in particular. The error matches fenlock.ErrInvalid.
func NewElector(locks Locks, name string, opts ...fenlock.Option) (*Elector, error) {
	if err := check(locks, name, opts); err != nil {
		return nil, err
	}
	return &Elector{locks: locks, name: name, opts: opts}, nil
}

// Run leads, when it is this process's turn, until ctx is done, and then waits for jobs under Work
// before it resigns. After a loss it re-enters the election. The error is leader.Lead's. An Elector
// runs once at a time.
func (e *Elector) Run(ctx context.Context) error {
	if e.locks == nil || !e.begin() {
		return fmt.Errorf("%w: the Elector %q is not from NewElector, or runs already", fenlock.ErrInvalid, e.name)
	}
	defer e.end()
	return leader.Lead(ctx, e.locks, e.name, func(ctx context.Context, token fence.Token) error {
		t := &term{ctx: ctx, token: token}
		e.set(t)
		<-ctx.Done()
		e.set(nil) // no job enters any more
		t.jobs.Wait()
		return nil
	}, e.opts...)
}

func (e *Elector) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.runs
	e.runs = true
	return !before
}

func (e *Elector) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = false
}

func (e *Elector) set(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lead = t
}

// IsLeader implements gocron.Elector. It asks no node, and does not wait: the error matches
// ErrNotLeader, also before it was decided who leads, and while too few nodes answer.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.now()
	return err
}

// now returns the term. The mutex is held.
func (e *Elector) now() (*term, error) {
	if e.lead == nil {
		return nil, fmt.Errorf("%w: %q", ErrNotLeader, e.name)
	}
	if e.lead.ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrNotLeader, e.name, context.Cause(e.lead.ctx))
	}
	return e.lead, nil
}

// Work returns a function for gocron.NewTask that runs work while this process leads. The context
// that work gets is a child of the job's, which also ends when the lead is lost, or Run's context
// is done. No other host leads before work has returned, unless the lead was lost. The term is for
// what work writes to.
//
// The function's error is work's, joined with the loss of the lock (fenlock.ErrLost); or
// ErrNotLeader, and then work was not run.
func (e *Elector) Work(work func(ctx context.Context, term fence.Token) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if work == nil {
			return errNoWork
		}
		t, err := e.enter()
		if err != nil {
			return err
		}
		defer t.jobs.Done()
		return under(ctx, t.ctx, func(ctx context.Context) error { return work(ctx, t.token) })
	}
}

func (e *Elector) enter() (*term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, err := e.now()
	if err == nil {
		t.jobs.Add(1)
	}
	return t, err
}
