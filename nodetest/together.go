package nodetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Reading the lease and writing it must be one step. Two steps pass every test
// that has one client.
func oneOfTwoClientsWins(s *suite) {
	for round := range 25 {
		name := fmt.Sprint("race ", round)
		var answers [2]node.Answer
		var errs [2]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, client := range []*watched{s.node, s.other} {
			wg.Go(func() {
				r := request(name, fmt.Sprint(i), 0)
				<-start
				answers[i], errs[i] = client.Acquire(s.ctx, r)
			})
		}
		close(start)
		wg.Wait()
		if errs[0] != nil || errs[1] != nil {
			s.Fatalf("errors: %v, %v", errs[0], errs[1])
		}
		if a, b := answers[0].Status, answers[1].Status; !(a == node.Granted && b == node.Held ||
			a == node.Held && b == node.Granted) {
			s.Fatalf("round %d: the two clients were answered %+v and %+v; want one granted, one held", round, answers[0],
				answers[1])
		}
	}
}

// grant is one acquisition under load: what was granted, and between which two
// readings of a common counter.
type grant struct {
	stripe     int
	token      fence.Token
	began, end int64
}

// Tokens are unique per stripe. However many clients are at work, an acquisition that starts after
// another one finished gets the larger one. A guarded resource relies on nothing else.
func registersGrowUnderLoad(s *suite) {
	const workers, acquires = 8, 24
	load, different := sameStripe("load", 3)
	load = append(load, different)
	var holders [4]atomic.Int32
	var counter atomic.Int64
	var mu sync.Mutex
	var grants []grant
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			client := []*watched{s.node, s.other}[worker%2]
			for i := range acquires {
				which := (worker + i) % len(load)
				r := request(load[which], fmt.Sprint("worker ", worker), 0)
				g := grant{stripe: node.Stripe(r.Name), began: counter.Add(1)}
				a, err := client.Acquire(s.ctx, r)
				if err != nil {
					s.Errorf("acquire: %v", err)
					return
				}
				g.token, g.end = a.Register, counter.Add(1)
				if a.Status == node.Held {
					continue
				}
				if n := holders[which].Add(1); n != 1 {
					s.Errorf("%d holders of %q at once", n, r.Name)
				}
				mu.Lock()
				grants = append(grants, g)
				mu.Unlock()
				holders[which].Add(-1)
				if a, err := client.Release(s.ctx, r); err != nil || a.Status != node.Granted {
					s.Errorf("release: %+v, %v", a, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(grants) < acquires {
		s.Errorf("only %d of %d acquires were granted: too few to say anything", len(grants), workers*acquires)
	}
	for i, a := range grants {
		for _, b := range grants[i+1:] {
			if a.stripe != b.stripe {
				continue
			}
			switch {
			case a.token == b.token:
				s.Fatalf("token %d was granted twice", a.token)
			case a.end < b.began && a.token > b.token, b.end < a.began && b.token > a.token:
				s.Fatalf("tokens do not grow: %+v and %+v", a, b)
			}
		}
	}
}

// A caller that has given up must get its goroutine back, and must not be told
// that something was done.
func doneContextIsAnError(s *suite) {
	r := s.takes("a", "me", 7)
	cancelled, cancel := context.WithCancel(s.ctx)
	cancel()
	late, cancel := context.WithDeadline(s.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, late} {
		begin := time.Now()
		for op, err := range everyOperation(ctx, s.node, r) {
			if err == nil {
				s.Errorf("%s with a context that is done: no error", op)
			}
		}
		if took := time.Since(begin); took > 10*time.Second {
			s.Errorf("the operations took %v with a context that was done", took)
		}
	}
	// The node is not worse for it.
	s.leased("a", "me", true, 7)
}

// A program may close a node while goroutines still use it: that is an error to
// them, no panic. Other clients of the store go on.
func closeEndsOnlyThisClient(s *suite) {
	r := s.takes("a", "me", 7)
	var wg sync.WaitGroup
	for range 4 { // operations under way; whether they succeed is open
		wg.Go(func() { s.node.Confirm(s.ctx, r) })
	}
	if err := s.node.Close(); err != nil {
		s.Errorf("close: %v", err)
	}
	wg.Wait()
	for op, err := range everyOperation(s.ctx, s.node, r) {
		if err == nil {
			s.Errorf("%s after Close: no error", op)
		}
	}
	s.node.Close() // again: any result, no panic
	s.want(node.Granted)(s.other.Acquire(s.ctx, request("b", "other", 0)))
}

// everyOperation calls every operation of a node and returns their errors.
func everyOperation(ctx context.Context, n *watched, r node.Request) map[string]error {
	errs := map[string]error{}
	for r.Op = node.Acquire; r.Op <= node.Release; r.Op++ {
		_, errs[r.Op.String()] = n.Do(ctx, r)
	}
	if n.admin() {
		_, errs["force release"] = n.ForceRelease(ctx, r.Name, 0)
		_, errs["inspect"] = n.Inspect(ctx, r.Name)
		errs["list"] = n.List(ctx, "", func(node.Lease) bool { return true })
	}
	return errs
}
