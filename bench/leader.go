package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
)

// leader is how long a change of leader takes, where the old leader ends as it should. It is from
// the end of its work until the next one leads, and until a follower sees that.

// candidate is a client that can lead, and follow.
type candidate struct {
	client
	// lead runs work once while this client leads, and returns when another one may.
	lead func(ctx context.Context, name, label string, work func()) error
	// follow tells whose label each leader has, until ctx is done.
	follow func(ctx context.Context, name string, sees func(label string)) error
}

var leaderWho = []contender{
	{fenlocks.name, fenlocks.what, openCandidate},
	{etcds.name, etcds.what, openEtcdCandidate},
}

func openCandidate(b *bench) (client, error) {
	l, err := b.locker()
	if err != nil {
		return nil, err
	}
	return candidate{
		client: ofLocker(l),
		lead: func(ctx context.Context, name, label string, work func()) error {
			return leader.Lead(ctx, l, name, func(context.Context, fence.Token) error { work(); return nil },
				fenlock.WithLabel(label))
		},
		follow: func(ctx context.Context, name string, sees func(string)) error {
			for leader, err := range leader.Follow(ctx, admin.Of(l), name) {
				if err != nil {
					return err
				}
				sees(leader.Label)
			}
			return nil
		},
	}, nil
}

func openEtcdCandidate(b *bench) (client, error) {
	s, end, err := openSession(b)
	if err != nil {
		return nil, err
	}
	return candidate{
		client: library{func(ctx context.Context, name string) (func() error, error) {
			e := concurrency.NewElection(s, "/bench-leader/"+name)
			if err := e.Campaign(ctx, "nobody"); err != nil {
				return nil, err
			}
			return func() error { return resign(e) }, nil
		}, end},
		lead: func(ctx context.Context, name, label string, work func()) error {
			e := concurrency.NewElection(s, "/bench-leader/"+name)
			if err := e.Campaign(ctx, label); err != nil {
				return err
			}
			work()
			return resign(e)
		},
		follow: func(ctx context.Context, name string, sees func(string)) error {
			for leader := range concurrency.NewElection(s, "/bench-leader/"+name).Observe(ctx) {
				sees(string(leader.Kvs[0].Value))
			}
			return nil
		},
	}, nil
}

func resign(e *concurrency.Election) error {
	ctx, cancel := context.WithTimeout(context.Background(), etcdPatience)
	defer cancel()
	return e.Resign(ctx)
}

// leaderResult is by contender.
type leaderResult struct {
	*turns
	leads, seen map[string][]time.Duration
}

// measureLeader has two candidates lead one after the other, and a third one follow them.
func measureLeader(ctx context.Context, old, next, follower candidate, name string) (leads, seen time.Duration,
	err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	run := func(f func() error) {
		all.Go(func() {
			if err := f(); err != nil {
				cancel(err)
			}
		})
	}
	end, over := make(chan struct{}), make(chan struct{})
	defer func() { cancel(nil); close(over); all.Wait() }()
	labels := []string{"old", "next"}
	var led, saw [2]chan time.Time
	for i := range labels {
		led[i], saw[i] = make(chan time.Time, 1), make(chan time.Time, 1)
	}
	run(func() error {
		return follower.follow(ctx, name, func(label string) {
			if i := slices.Index(labels, label); i >= 0 {
				select {
				case saw[i] <- time.Now():
				default: // seen before
				}
			}
		})
	})
	run(func() error {
		return old.lead(ctx, name, labels[0], func() {
			led[0] <- time.Now()
			select {
			case <-end:
			case <-ctx.Done():
			}
		})
	})
	if _, err := await(ctx, led[0]); err != nil {
		return 0, 0, err
	}
	run(func() error {
		return next.lead(ctx, name, labels[1], func() {
			led[1] <- time.Now()
			<-over
		})
	})
	if _, err := await(ctx, saw[0]); err != nil {
		return 0, 0, err
	}
	longPause.sleep()
	start := time.Now()
	close(end)
	begins, err1 := await(ctx, led[1])
	told, err2 := await(ctx, saw[1])
	return begins.Sub(start), told.Sub(start), errors.Join(err1, err2)
}

// await returns when something happened.
func await(ctx context.Context, when chan time.Time) (time.Time, error) {
	select {
	case t := <-when:
		return t, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

func runLeader(ctx context.Context, b *bench, who []contender) (*leaderResult, error) {
	t, err := b.takeTurns(ctx, who, 3)
	if err != nil {
		return nil, err
	}
	defer t.close()
	r := &leaderResult{t, map[string][]time.Duration{}, map[string][]time.Duration{}}
	return r, t.each(b.size.changes, func(round, i int) error {
		var three [3]candidate
		for k := range three { // each is each
			three[k] = t.clients[i][(round+k)%3].(candidate)
		}
		var leads, seen time.Duration
		err := within(ctx, b.giveUp, func(ctx context.Context) (err error) {
			leads, seen, err = measureLeader(ctx, three[0], three[1], three[2], fmt.Sprint("bench:leader:", round))
			return err
		})
		if err != nil {
			return err
		}
		r.leads[t.names[i]], r.seen[t.names[i]] = append(r.leads[t.names[i]], leads), append(r.seen[t.names[i]], seen)
		return nil
	})
}

func (r *leaderResult) report(b *bench) *table {
	t := &table{
		title:  "leader: from the end of a leader's work until the next one leads, and until a follower sees it",
		method: fmt.Sprintf("%d rounds, interleaved, each with two candidates and a follower, clients of their own; the old leader ends 50 to 100 ms after it was seen; ratios are of one round, their median (p10–p90)", b.size.changes),
		header: []string{"", "leads, median", "longest", "÷ fenlock", "seen, median", "longest", "÷ fenlock"},
	}
	for _, name := range r.names {
		leads, seen := r.leads[name], r.seen[name]
		t.row(name, micros(median(leads)), micros(percentile(leads, 1)), spread(ratios(leads, r.leads[fenlocks.name])),
			micros(median(seen)), micros(percentile(seen, 1)), spread(ratios(seen, r.seen[fenlocks.name])))
		if r.gaveUp[name] {
			t.note("%s: no change within %v in round %d, and left out from then on", name, b.giveUp, len(seen)+1)
		}
	}
	t.note("fenlock's follower asks every 0.45 to 0.75 s, whichever process leads; etcd's is told by a watch")
	return t
}
