//go:build linux

package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/history"
)

// leader is one call of Lead, with a tenure for each time that it leads.
type leader struct {
	*tenure
	again int64 // when work returned last; 0: it has not led yet
	late  func()
}

// term is the lease of one who leads: what there is to it is its token and its context.
type term struct {
	library.Lease
	token fence.Token
	ctx   context.Context
	leads func() bool
}

func (l term) Token() fence.Token       { return l.token }
func (l term) Context() context.Context { return l.ctx }

// leadRound stands for the lead, leads for a while, and after a loss again.
func (u *user) leadRound(ctx context.Context) {
	u.sleep(ctx, u.logUniform(100*time.Microsecond, 100*time.Millisecond))
	l := &leader{tenure: u.begin(u.config.Names[u.rng.IntN(len(u.config.Names))]), late: func() {}}
	l.note(history.Event{Kind: history.Acquire})
	ctx, cancel := u.impatient(ctx, 4)
	defer cancel()
	err := u.full().Lead(ctx, l.name, l.work)
	if l.again == 0 {
		l.noteError(history.Failed, err)
		u.sleep(ctx, u.logUniform(time.Millisecond, 50*time.Millisecond))
		return
	}
	l.over()
	l.late()
}

// work is called with each term.
func (l *leader) work(ctx context.Context, token fence.Token, leads func() bool) error {
	if l.again != 0 { // after a loss: it stood again as soon as work had returned
		l.over()
		l.tenure = l.begin(l.name)
		l.note(history.Event{At: l.again, Kind: history.Acquire})
	}
	t := l.tenure
	t.lease = term{token: token, ctx: ctx, leads: leads}
	context.AfterFunc(ctx, func() { t.endAt.Store(int64(clock.Now())) })
	t.claim(history.Acquired)
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.logUniform(l.config.Shortest, l.config.Longest))
	defer cancel()
	if !l.reckless {
		defer context.AfterFunc(ctx, cancel)()
	}
	for limit.Err() == nil {
		switch l.rng.IntN(3) {
		case 0:
			l.sleep(limit, l.logUniform(time.Millisecond, l.config.TTL/10))
		default:
			if !l.count(limit) {
				cancel()
			}
		}
		l.claim(history.Holds)
	}
	l.late = l.lateWrite()
	if library.Lost(context.Cause(ctx)) {
		l.seesEnd()
	}
	l.note(history.Event{Kind: history.Release})
	l.again = int64(clock.Now())
	return nil
}

// errNobodyKnows is what came of a release: Lead does not tell.
var errNobodyKnows = errors.New("it is not known whether it was released")

func (l *leader) over() { l.noteError(history.Released, errNobodyKnows) }

// claim notes that it leads up to now, if the validity has not ended by then: the clock is read
// before that is asked. A context alone does not tell: its timer is late after a pause.
func (t *tenure) claim(kind history.Kind) {
	begin, now := clock.Now(), clock.Now()+1
	e := history.Event{At: int64(begin), Kind: kind}
	if t.lease.(term).leads() {
		e.Until = int64(now)
	} else if kind == history.Holds {
		return
	}
	t.note(e)
}

// follow notes whom this client believes to lead, under each name.
func (u *user) follow(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, name := range u.config.Names {
		all.Go(func() {
			for leader, err := range u.full().Follow(ctx, name) {
				if err == nil {
					u.log.write(history.Event{Kind: history.Follows, Client: u.config.Client, Name: name, Token: uint64(leader.Term),
						Text: leader.Label})
				}
			}
		})
	}
}
