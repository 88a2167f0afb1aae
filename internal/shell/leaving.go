package shell

import (
	"context"
	"sync/atomic"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// leaving is a release that no lock waits for: of a waiter that leaves, or of a lease
// that may be left over.
type leaving struct {
	fanout  fanout
	left    atomic.Int32
	unheard atomic.Uint32 // a core.Set
	freed   atomic.Bool
	done    func(l *leaving, unheard core.Set, freed bool)
	heard   func(node int)
}

// leave sends it. Done is told which nodes have not answered, and whether one had the lease. Heard,
// which may be nil, is told of each answer, however late.
//
// Unlike the release of a lock, it has no patience: what an engine has not sent by the node timeout
// is not sent. Strays repeat it when the node answers again, so that a node which is behind would
// carry it out twice. What a node has given ends by itself, in rule.ReservationTTL.
func leave(g *group, to core.Set, r node.Request, done func(l *leaving, unheard core.Set, freed bool),
	heard func(node int)) {
	l := &leaving{done: done, heard: heard}
	l.left.Store(int32(to.Len()))
	l.fanout = fanout{group: g, of: l, action: core.Action{Op: core.Release, To: to}, request: r,
		calls: calls{own: make([]call, len(g.Peers))}}
	l.fanout.send(context.Background(), g.Env.Now())
}

// answered implements answerer.
func (l *leaving) answered(_ *fanout, i int, a node.Answer, err error) {
	switch {
	case err != nil:
		l.unheard.Or(uint32(core.Set(0).With(i)))
	case a.Status == node.Granted:
		l.freed.Store(true)
	}
	l.late(nil, i, a, err)
	if l.left.Add(-1) == 0 {
		l.done(l, core.Set(l.unheard.Load()), l.freed.Load())
	}
}

// late implements answerer.
func (l *leaving) late(f *fanout, i int, a node.Answer, err error) {
	switch {
	case err != nil && f != nil:
		f.group.strays.lost(i, &f.request)
	case err != nil:
	case l.heard != nil:
		l.heard(i)
	case f != nil:
		f.group.strays.answered(i, &f.request, a.Status == node.Granted)
	}
}

// silent implements answerer.
func (l *leaving) silent() bool { return false }
