//go:build linux

package main

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
	"github.com/fenlock/fenlock/tests/history"
)

var lockNames = []string{"red", "green", "blue"}

// Bounds of what the runner waits for. They are for what hangs, not for what is slow.
const (
	startLimit     = 60 * time.Second
	restLimit      = 30 * time.Second
	admissionLimit = 40 * time.Second
	finishLimit    = 60 * time.Second
)

// job is one history that is to be made.
type job struct {
	setup
	seed     uint64
	library  string
	clients  int
	reckless bool   // see workerConfig
	rests    bool   // count the leases that are left whenever all clients let go
	out      string // folder for the history
	keep     bool   // the history, even if all is well
	command  string // that makes it again
}

// outcome is what came of a job.
type outcome struct {
	seed     uint64
	path     string // of the history, "" if it was not kept
	report   history.Report
	problems []string   // what went wrong beside the checks: a client crashed or hung, a server stayed out
	covered  [][]string // pairs that overlapped
	stranded int        // leases that nobody held, at all rests
	took     time.Duration
	command  string
}

func (o outcome) failed() bool { return len(o.problems) > 0 || len(o.report.Violations) > 0 }

// runner makes one history.
type runner struct {
	job
	plan     plan
	cluster  *cluster
	resource *resource
	crew     *crew
	outcome  outcome

	mu     sync.Mutex // guards events and outcome.problems
	events []history.Event
}

// runHistory makes a history and checks it. The error says why there is none;
// what is wrong with locks is in the outcome.
func runHistory(ctx context.Context, t testing.TB, j job) (outcome, error) {
	began := time.Now()
	r := &runner{job: j, plan: newPlan(j.seed, j.setup)}
	r.outcome = outcome{seed: j.seed, command: j.command}
	bound := 2*r.plan.length() + 3*time.Minute
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := r.start(t, bound); err != nil {
		return r.outcome, err
	}
	if err := r.play(ctx); err != nil {
		return r.outcome, err
	}
	err := r.finish()
	r.outcome.took = time.Since(began)
	return r.outcome, err
}

// length is about how long the slots take.
func (p plan) length() (d time.Duration) {
	for _, s := range p.slots {
		longest := s.length
		for _, t := range s.strikes {
			longest = max(longest, t.to)
		}
		d += longest
	}
	return d
}

func (r *runner) start(t testing.TB, bound time.Duration) error {
	dir := t.TempDir()
	kind := testserver.Kinds(t)[0]
	r.cluster = newCluster(t, kind, r.nodes, r.plan.persistence, r.seed)
	var err error
	if r.resource, err = newResource(r.library == libraryFenlock || r.library == libraryBroken); err != nil {
		return err
	}
	t.Cleanup(func() { r.resource.close() })
	r.crew, err = startCrew(dir, r.clients, workerConfig{
		Library: r.library, Names: lockNames, Resource: r.resource.addr(), Seed: r.seed,
		TTL: r.ttl, MaxTTL: r.ttl, NodeTimeout: r.ttl / 4, Reckless: r.reckless, Life: bound,
	}, r.cluster.urlsFor)
	if err != nil {
		return err
	}
	t.Cleanup(r.crew.end)
	return nil
}

// play lets the faults strike, and then lets the clients come to their end.
func (r *runner) play(ctx context.Context) error {
	if err := r.awaitUse(ctx); err != nil {
		return err
	}
	for _, s := range r.plan.slots {
		if err := r.playSlot(ctx, s); err != nil {
			return err
		}
	}
	r.problem(r.crew.rest(restLimit))
	r.admitted(ctx)
	r.note(history.Event{Kind: history.Quiet})
	r.crew.tell(sayQuiet)
	r.problem(r.crew.finish(finishLimit))
	// The leases of clients that were killed end by themselves.
	if err := sleep(ctx, r.ttl+time.Second); err != nil {
		return err
	}
	left, err := r.cluster.leftovers()
	r.problem(err)
	for _, l := range left {
		r.note(history.Event{Kind: history.Leftover, Node: l.node + 1, Name: l.name, Text: l.text})
	}
	return ctx.Err()
}

// awaitUse waits until the clients have begun: faults that strike nobody show
// nothing.
func (r *runner) awaitUse(ctx context.Context) error {
	for end := time.Now().Add(startLimit); !r.resource.used(); {
		if time.Now().After(end) {
			return fmt.Errorf("no client has used the resource within %v%s", startLimit, r.crew.said(r.crew.member(0)))
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// playSlot lets the strikes of a slot begin and end in their time, each on a
// goroutine of its own, because one may have to wait for another to be healed. None
// is healed before all have begun.
func (r *runner) playSlot(ctx context.Context, s slot) error {
	begin := time.Now()
	var begun, healed sync.WaitGroup
	var struck atomic.Int32
	begun.Add(len(s.strikes))
	for _, t := range s.strikes {
		healed.Go(func() {
			sleep(ctx, t.from-time.Since(begin))
			node, heal, err := r.strike(t)
			begun.Done()
			if errors.Is(err, errNotNow) {
				return // the pair is not covered
			}
			if err != nil {
				r.problem(err)
				return
			}
			struck.Add(1)
			begun.Wait()
			sleep(ctx, t.to-time.Since(begin))
			r.problem(heal())
			r.note(history.Event{Kind: history.Healed, Fault: t.kind.name, Node: node + 1})
		})
	}
	healed.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if int(struck.Load()) == len(s.strikes) {
		var pair []string
		for _, t := range s.strikes {
			pair = append(pair, t.kind.name)
		}
		r.outcome.covered = append(r.outcome.covered, pair)
	}
	if r.rests {
		r.countStranded()
	}
	switch {
	case r.library == libraryFenlock:
		r.admitted(ctx)
	case slices.ContainsFunc(s.strikes, func(t strike) bool { return t.kind.forgets }):
		// As long as fenlock would have to be waited for.
		if err := sleep(ctx, 2*r.ttl+500*time.Millisecond); err != nil {
			return err
		}
	}
	return sleep(ctx, s.length-time.Since(begin))
}

// strike begins a fault on its server, or on the other one if the first is in no
// state for it. It returns which, -1 for none or several.
func (r *runner) strike(t strike) (node int, heal func() error, err error) {
	note := func(fault string, node int, breaks string) {
		r.note(history.Event{Kind: history.Fault, Fault: fault, Node: node + 1, Breaks: breaks})
	}
	for i, place := range []int{t.node, t.other} {
		node = place
		if t.kind.nodeless {
			node = -1
		}
		note(t.kind.name, node, t.kind.breaks)
		heal, err = r.inject(t, scene{
			rng:     rand.New(rand.NewPCG(t.rngSource, uint64(i))),
			cluster: r.cluster, node: place, clients: r.crew, ttl: r.ttl, note: note,
		})
		if err == nil {
			return node, heal, nil
		}
		// With a reason it does not count as a strike: nothing happened.
		r.note(history.Event{Kind: history.Healed, Fault: t.kind.name, Node: node + 1, Text: err.Error()})
		if !errors.Is(err, errNotNow) {
			break
		}
	}
	return node, nil, fmt.Errorf("%s on server %d: %w", t.kind.name, node+1, err)
}

// inject has a kind begin. What fails in a server is an error.
func (r *runner) inject(t strike, s scene) (heal func() error, err error) {
	err = testserver.Try(func() error {
		heal, err = t.kind.inject(&s)
		return err
	})
	return heal, err
}

// admitted waits until all servers vote.
func (r *runner) admitted(ctx context.Context) {
	if r.library != libraryFenlock {
		return
	}
	end := time.Now().Add(admissionLimit)
	for node := range r.nodes {
		for !r.cluster.admitted(node) {
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

// countStranded has all clients let go at once, whatever they are doing, and
// counts the leases that are there although nobody holds a lock. Requests that
// were under way have had their time.
func (r *runner) countStranded() {
	if err := r.crew.rest(restLimit); err != nil {
		r.problem(err)
		return
	}
	time.Sleep(2*r.ttl/4 + 50*time.Millisecond)
	left, err := r.cluster.leftovers()
	r.problem(err)
	r.outcome.stranded += len(left)
	r.crew.tell(sayGo)
}

// finish puts the history together, writes it and checks it.
func (r *runner) finish() error {
	r.crew.end()
	used := r.resource.close()
	sources, err := r.crew.events()
	if err != nil {
		return err
	}
	r.note(history.Event{Kind: history.End})
	header, err := r.header()
	if err != nil {
		return err
	}
	h := &history.History{Header: header, Events: history.Merge(append([][]history.Event{used}, append(sources, r.events)...)...)}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	r.outcome.path = filepath.Join(r.out, fmt.Sprintf("history-%d.jsonl", r.seed))
	if err := h.Write(r.outcome.path); err != nil {
		return err
	}
	// What is checked is what can be checked again.
	if h, err = history.Read(r.outcome.path); err != nil {
		return err
	}
	r.outcome.report = history.Check(h)
	if !r.keep && !r.outcome.failed() {
		err := os.Remove(r.outcome.path)
		r.outcome.path = ""
		return err
	}
	return nil
}

func (r *runner) header() (history.Header, error) {
	version, err := r.cluster.version()
	h := history.Header{
		Seed: r.seed, Library: r.library, Server: version, Nodes: r.nodes, Clients: r.clients, Names: lockNames,
		TTL: r.ttl, MaxTTL: r.ttl, Persistence: string(r.plan.persistence), Command: r.command,
	}
	if h.Library == libraryBroken {
		h.Library = libraryFenlock // whose promises it breaks
	}
	for _, p := range r.outcome.covered {
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
		r.outcome.problems = append(r.outcome.problems, err.Error())
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
