package sim

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/internal/sim/proofsteps"
	"github.com/fenlock/fenlock/node"
)

// lock is one attempt, and what becomes of it, as the checkers see it.
type lock struct {
	c       *client
	a       *acquisition
	id      int // of the attempt, in the whole run
	holder  node.Holder
	name    int
	start   time.Duration // on the client's clock
	asked   time.Duration // the nodes, first, in true time
	began   time.Duration // in true time; later than asked if the nodes gave it
	attempt shell.Attempt
	steps   *proofsteps.Attempt

	decided    bool
	ended      bool // what the lock's context says
	extendedAt time.Duration
	ttl        time.Duration
	rounds     []extending // the latest
	until      time.Duration
	given      time.Duration // the validity with which the nodes gave it
	brief      time.Duration // the same if a stall may outlast it
	carried    uint32        // the newest extension that was
	round      uint32        // of the newest extension that a node refused
	refusers   core.Set      // in that round
	released   bool
}

// extending is an extension.
type extending struct {
	round     uint32
	at, local time.Duration // when it began, in true time and on the client's clock
}

// extends begins an extension, or goes on with one.
func (l *lock) extends(now time.Duration, begin func(time.Duration) core.Action) core.Action {
	before, _ := l.attempt.Extension()
	action := begin(now)
	if round, _ := l.attempt.Extension(); round != before {
		l.extend(round, now)
	}
	return action
}

// extend notes that an extension has begun.
func (l *lock) extend(round uint32, now time.Duration) {
	l.extendedAt = l.c.w.now
	if len(l.rounds) == proofsteps.Remembered {
		l.rounds = slices.Delete(l.rounds, 0, 1)
	}
	l.rounds = append(l.rounds, extending{round, l.extendedAt, now})
}

// countsFrom returns the extension from whose start a validity is counted. Of a validity that the
// maximum hold bounds it returns all from which it may be.
func (l *lock) countsFrom(until time.Duration) (could []extending) {
	for _, x := range l.rounds {
		switch end := core.Validity(x.local, l.ttl); {
		case end == until:
			return []extending{x}
		case end > until:
			could = append(could, x)
		}
	}
	return could
}

// roundsFrom returns the numbers of these.
func (l *lock) roundsFrom(until time.Duration) (rounds []uint32) {
	for _, x := range l.countsFrom(until) {
		rounds = append(rounds, x.round)
	}
	return rounds
}

func (l *lock) token() fence.Token { return l.attempt.Token() }

// extendNow is Lock.Extend.
func (l *lock) extendNow() { l.a.shell.Lock().Extend(nobody{}) }

// downgrade is Lock.Downgrade.
func (l *lock) downgrade() {
	w := l.c.w
	w.result.Downgraded++
	l.a.shared = true
	w.validity.Shares(l.name, l.id)
	w.tokens.Shares(l.name, l.id)
	l.a.shell.Lock().Share()
	l.extendNow()
}

// no caller waits for an extension.
type nobody struct{}

func (nobody) Extended(shell.Failure) {}

// release is Lock.Release.
func (l *lock) release(done func()) {
	l.released, l.a.onReleased = true, done
	l.c.w.note("client %[1]d releases attempt %[2]d", l.c.id, l.id, 0, 0)
	l.a.shell.Lock().Release(true)
}
