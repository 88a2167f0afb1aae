//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/plan"
	"github.com/fenlock/fenlock/tests/faults/resource"
	"github.com/fenlock/fenlock/tests/faults/steps"
	"github.com/fenlock/fenlock/tests/faults/worker"
	"github.com/fenlock/fenlock/tests/history"
)

// Names are the locks that clients use.
var Names = []string{"red", "green", "blue"}

// moreNames are for clients that take several at a time, as well.
var moreNames = []string{"white", "black"}

// Bounds of what the runner waits for. They are for what hangs, not for what is slow.
const (
	startLimit     = 60 * time.Second
	restLimit      = 30 * time.Second
	admissionLimit = 40 * time.Second
	finishLimit    = 60 * time.Second
)

// Job is one history that is to be made.
type Job struct {
	plan.Setup
	Seed     uint64
	Library  string
	Locks    string // what clients use them for: library.Locks
	Clients  int
	Reckless bool   // see worker.Config
	Rests    bool   // count the leases that are left whenever all clients let go
	Out      string // folder for the history
	Keep     bool   // the history, even if all is well
	Command  string // that makes it again
	Steps    bool   // have each step of the servers be one of the model that is proved: package steps
}

// Outcome is what came of a Job.
type Outcome struct {
	Seed     uint64
	Path     string // of the history, "" if it was not kept
	Report   history.Report
	Problems []string   // what went wrong beside the checks: a client crashed or hung, a server stayed out
	Covered  [][]string // pairs that overlapped
	Leftover int        // leases without a holder, at all rests
	Took     time.Duration
	Command  string
	Tied     steps.Result
}

// Failed reports whether a promise was broken, or something went wrong.
func (o Outcome) Failed() bool { return len(o.Problems) > 0 || len(o.Report.Violations) > 0 }

// runner makes one history.
type runner struct {
	Job
	plan     plan.Plan
	cluster  *cluster.Cluster
	resource *resource.Server
	clients  *worker.Group
	steps    *steps.Recorder // nil: they are not recorded
	outcome  Outcome

	mu     sync.Mutex // guards events and outcome.Problems
	events []history.Event
}

// Run makes a history and checks it. The error says why there is none; what is wrong
// with locks is in the outcome.
func Run(ctx context.Context, j Job) (o Outcome, err error) {
	outside := &testserver.Outside{}
	defer outside.Close()
	o = Outcome{Seed: j.Seed, Command: j.Command} // of one that fails before it has begun
	err = testserver.Try(func() error {
		o, err = run(ctx, outside, j)
		return err
	})
	return o, err
}

func run(ctx context.Context, t testing.TB, j Job) (Outcome, error) {
	began := time.Now()
	r := &runner{Job: j, plan: plan.New(j.Seed, j.Setup)}
	r.outcome = Outcome{Seed: j.Seed, Command: j.Command}
	bound := 2*r.plan.Length() + 3*time.Minute
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := r.start(t, bound)
	if err == nil {
		err = r.play(ctx)
	}
	if err == nil {
		err = r.finish()
	}
	r.outcome.Took = time.Since(began)
	return r.outcome, err
}

func (r *runner) start(t testing.TB, bound time.Duration) error {
	dir := t.TempDir()
	r.cluster = cluster.New(t, r.Group, r.Nodes, r.plan.Persistence, r.Seed)
	r.resource = resource.New(r.Library == library.Fenlock || r.Library == library.Broken)
	t.Cleanup(func() { r.resource.Close() })
	shortest, longest := r.holds()
	var err error
	if r.Steps {
		if r.steps, err = steps.Record(context.Background(), r.cluster.Recorded()); err != nil {
			return err
		}
		t.Cleanup(r.steps.Stop)
	}
	r.clients, err = worker.Start(dir, r.Clients, worker.Config{
		Config: library.Config{Library: r.Library, TTL: r.TTL, MaxTTL: r.TTL, NodeTimeout: r.TTL / 4},
		Locks:  r.Locks, Names: r.names(), Resource: r.resource.URL(), Seed: r.Seed, Reckless: r.Reckless, Life: bound,
		Shortest: shortest, Longest: longest, Watched: r.Library == library.Fenlock, Traffic: r.Rolling,
	}, r.cluster.URLs)
	if err != nil {
		return err
	}
	t.Cleanup(r.clients.End)
	return nil
}

func (r *runner) names() []string {
	switch r.Locks {
	case library.Several:
		return slices.Concat(Names, moreNames)
	case library.Slots:
		return []string{Names[0] + "#0", Names[0] + "#1", Names[0] + "#2"}
	}
	return Names
}

// holds returns for how long locks are held: over a fault, or over many if they go round.
func (r *runner) holds() (shortest, longest time.Duration) {
	if r.Rolling {
		return 5 * r.TTL, 50 * r.TTL
	}
	return time.Millisecond, 2 * r.TTL
}

// play lets the faults strike, and then lets the clients come to their end.
func (r *runner) play(ctx context.Context) error {
	if err := r.awaitUse(ctx); err != nil {
		return err
	}
	for _, s := range r.plan.Slots {
		if err := r.playSlot(ctx, s); err != nil {
			return err
		}
	}
	r.problem(r.clients.Rest(restLimit))
	r.admitted(ctx)
	r.note(history.Event{Kind: history.Quiet})
	r.clients.Quiet()
	r.problem(r.clients.Finish(finishLimit))
	// The leases of clients that were killed end by themselves.
	if err := sleep(ctx, r.TTL+time.Second); err != nil {
		return err
	}
	left, err := r.cluster.Leftovers()
	for end := time.Now().Add(r.Group.Lingers()); err == nil && len(left) > 0 &&
		time.Now().Before(end); left, err = r.cluster.Leftovers() {
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	r.problem(err)
	for _, l := range left {
		r.note(history.Event{Kind: history.Leftover, Node: l.Node + 1, Name: l.Name, Text: l.Text})
	}
	return ctx.Err()
}

// awaitUse waits until the clients have begun: faults that strike no client show nothing.
func (r *runner) awaitUse(ctx context.Context) error {
	for end := time.Now().Add(startLimit); !r.resource.Used(); {
		if time.Now().After(end) {
			return fmt.Errorf("no client has used the resource within %v%s", startLimit, r.clients.Said(0))
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// playSlot lets the faults of a slot begin and end in their time. Each has a goroutine of its own,
// because one may have to wait for another to be healed. None is healed before all have begun.
func (r *runner) playSlot(ctx context.Context, s plan.Slot) error {
	begin := time.Now()
	var begun, healed sync.WaitGroup
	var struck atomic.Int32
	begun.Add(len(s.Faults))
	forget := r.Forget(s, r.plan.Persistence)
	for _, f := range s.Faults {
		healed.Go(func() {
			sleep(ctx, f.From-time.Since(begin))
			node, heal, err := r.inject(f, forget)
			begun.Done()
			if errors.Is(err, cluster.ErrNotNow) {
				return // the pair is not covered
			}
			if err != nil {
				r.problem(err)
				return
			}
			struck.Add(1)
			begun.Wait()
			sleep(ctx, f.To-time.Since(begin))
			r.problem(heal())
			r.note(history.Event{Kind: history.Healed, Fault: f.Kind.Name, Node: node + 1})
		})
	}
	healed.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if int(struck.Load()) == len(s.Faults) {
		r.outcome.Covered = append(r.outcome.Covered, s.Pair())
	}
	if r.Rests {
		r.countLeftovers()
	}
	switch {
	case r.Library == library.Fenlock:
		r.admitted(ctx)
	case slices.ContainsFunc(s.Faults, func(f plan.Fault) bool {
		return f.Kind.Costs(r.Group.At(f.Node), r.plan.Persistence) != cluster.Nothing
	}):
		// As long as fenlock would have to be waited for.
		if err := sleep(ctx, 2*r.TTL+500*time.Millisecond); err != nil {
			return err
		}
	}
	left := s.Length - time.Since(begin)
	if r.Rolling {
		left = max(left, r.TTL/2) // which a node that is back is promised
	}
	return sleep(ctx, left)
}

// inject begins a fault on its server, or on the other server if the first is in no state for it.
// It returns which, -1 for none or several. Forget: a majority may lose its registers.
func (r *runner) inject(f plan.Fault, forget bool) (node int, heal kinds.Heal, err error) {
	note := func(fault string, node int, breaks string) {
		r.note(history.Event{Kind: history.Fault, Fault: fault, Node: node + 1, Breaks: breaks})
	}
	for i, place := range []int{f.Node, f.Other} {
		node = place
		if f.Kind.Nodeless {
			node = -1
		}
		engine := r.Group.At(place)
		breaks := f.Kind.BreaksOn(engine)
		if forget && breaks == "" && f.Kind.Costs(engine, r.plan.Persistence) == cluster.Registers {
			breaks = history.RegistersSurvive
		}
		note(f.Kind.Name, node, breaks)
		err = testserver.Try(func() error { // what fails in a server is an error
			heal, err = f.Kind.Inject(&kinds.Scene{
				RNG:     rand.New(rand.NewPCG(f.Seed, uint64(i))),
				Cluster: r.cluster, Node: place, Clients: r.clients, TTL: r.TTL, Note: note,
			})
			return err
		})
		if err == nil {
			return node, heal, nil
		}
		// With a reason it does not count: nothing happened.
		r.note(history.Event{Kind: history.Healed, Fault: f.Kind.Name, Node: node + 1, Text: err.Error()})
		if !errors.Is(err, cluster.ErrNotNow) {
			break
		}
	}
	return node, nil, fmt.Errorf("%s on server %d: %w", f.Kind.Name, node+1, err)
}

// admitted waits until all servers vote.
func (r *runner) admitted(ctx context.Context) {
	if r.Library != library.Fenlock {
		return
	}
	end := time.Now().Add(admissionLimit)
	for node := range r.Nodes {
		for !r.cluster.Admitted(node) {
			if time.Now().After(end) {
				r.problem(fmt.Errorf("server %d does not vote %v after its fault was healed", node+1, admissionLimit))
				return
			}
			if sleep(ctx, 20*time.Millisecond) != nil {
				return
			}
		}
	}
}

// countLeftovers has all clients let go at once, whatever they are doing, and counts the leases
// that are there although no lock is held. Requests that were under way have had their time.
func (r *runner) countLeftovers() {
	if err := r.clients.Rest(restLimit); err != nil {
		r.problem(err)
		return
	}
	time.Sleep(2*r.TTL/4 + 50*time.Millisecond)
	left, err := r.cluster.Leftovers()
	r.problem(err)
	r.outcome.Leftover += len(left)
	r.clients.GoOn()
}

// finish puts the history together, writes it and checks it.
func (r *runner) finish() error {
	r.clients.End()
	used := r.resource.Close()
	sources, err := r.clients.Events()
	if err != nil {
		return err
	}
	r.note(history.Event{Kind: history.End})
	header, err := r.header()
	if err != nil {
		return err
	}
	h := &history.History{Header: header,
		Events: history.Merge(append([][]history.Event{used}, append(sources, r.events)...)...)}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	r.outcome.Path = filepath.Join(r.Out, fmt.Sprintf("history-%d.jsonl", r.Seed))
	if err := h.Write(r.outcome.Path); err != nil {
		return err
	}
	// What is checked is what can be checked again.
	if h, err = history.Read(r.outcome.Path); err != nil {
		return err
	}
	r.outcome.Report = history.Check(h)
	r.tie(h)
	if !r.Keep && !r.outcome.Failed() {
		err := os.Remove(r.outcome.Path)
		r.outcome.Path = ""
		return err
	}
	return nil
}

// tie has the recorded steps be those of the model.
func (r *runner) tie(h *history.History) {
	if r.steps == nil {
		return
	}
	r.steps.Stop()
	given := map[string][]uint64{}
	for _, e := range h.Events {
		if e.Kind == history.Acquired {
			given[e.Name] = append(given[e.Name], e.Token)
		}
	}
	names, shared := r.names(), r.Locks == library.Shared
	if r.Locks == library.Slots { // the holders of its slots share the name
		names, shared = append(names, Names[0]), true
	}
	r.outcome.Tied = r.steps.Check(steps.Claims{Names: names, Shared: shared, Tokens: given,
		Durable:    r.plan.Persistence == cluster.Always,
		MovedClock: func(node int) bool { return r.cluster.Members[node].Clock.Steps() > 0 }})
	if err := r.outcome.Tied.Refused; err != nil {
		r.problem(fmt.Errorf("a step is none of the model: %w", err))
	}
}

func (r *runner) header() (history.Header, error) {
	version, err := r.cluster.Version()
	h := history.Header{
		Seed: r.Seed, Library: r.Library, Server: version, Nodes: r.Nodes, Clients: r.Clients, Names: r.names(),
		TTL: r.TTL, MaxTTL: r.TTL, Watched: r.Library == library.Fenlock, Persistence: string(r.plan.Persistence),
		Command: r.Command,
	}
	if r.Locks != library.Exclusive {
		h.Locks = r.Locks
	}
	if h.Library == library.Broken {
		h.Library = library.Fenlock // whose promises it breaks
	}
	for _, p := range r.outcome.Covered {
		if len(p) == 2 {
			h.Pairs = append(h.Pairs, [2]string(p))
		}
	}
	return h, err
}

// note writes down what the runner does.
func (r *runner) note(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = int64(clock.Now())
	r.events = append(r.events, e)
}

// problem keeps an error that is no reason to stop, but one to fail.
func (r *runner) problem(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.outcome.Problems = append(r.outcome.Problems, err.Error())
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(max(0, d)):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
