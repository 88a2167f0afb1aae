//go:build linux

package kinds

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// Kind is a kind of fault.
type Kind struct {
	Name string

	// On are the engines on whose servers it makes sense, by name. Empty: all that have a server,
	// or if OfClients all.
	On []string

	// Breaks is the declared assumption of the lock that the fault breaks, "" for
	// none: see the constants below.
	Breaks string

	// Forgets: it can cost a server its memory, or keep it from voting for as long
	// as if it had. No more than a minority may be in this state at a time, counted
	// until the server is admitted again. With Crash it does so on engines that a crash
	// costs something, with Start on those that any start does.
	Forgets, Crash, Start bool

	// Shortest and Longest are for how many TTLs the fault lasts, from the return of
	// Inject to the call of heal. Both 0: it is over when Inject returns, and heal
	// is called at once.
	Shortest, Longest float64

	// Goes: the server goes for a while and comes back, with or without its memory.
	Goes bool

	// OfClients: it strikes clients, whatever the servers are.
	OfClients bool

	// Nodeless: it strikes several servers, or none, whichever the runner chose.
	Nodeless bool

	// Within are the libraries that state that they bear the fault. Durable are those that do if
	// each write is on disk before it is answered.
	Within, Durable []string

	// Inject begins the fault. It notes nothing but the steps that the runner cannot
	// know of; the runner notes that the fault begins, before, and that it is healed,
	// after. heal leaves the server in its normal state; it is called once, and waits
	// where another fault keeps the server from answering, so heals of one server must
	// not wait for each other. With an error there is nothing to heal; it is
	// cluster.ErrNotNow if another fault was in the way.
	Inject func(s *Scene) (heal Heal, err error)
}

// Heal ends a fault that has begun.
type Heal func() error

// over is for faults that are over at once.
func over() error { return nil }

// Repeated does something again and again until it is healed, or fails: first after a while, and
// then after what do returns.
func Repeated(first time.Duration, do func() (next time.Duration, err error)) Heal {
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for next := first; ; {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-time.After(next):
			}
			var err error
			if next, err = do(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	return func() error { close(stop); return <-stopped }
}

// Scene is what a fault may act on: who draws the numbers, and what there is.
type Scene struct {
	RNG     *rand.Rand
	Cluster *cluster.Cluster
	Node    int // chosen by the runner, from 0
	Clients Clients
	TTL     time.Duration

	// Note records a step that strikes: faults that strike several times, or step a
	// clock when they heal, call it for each step. node is from 0, as above.
	Note func(fault string, node int, breaks string)
}

// Clients are the client processes that are alive, numbered from 0 for as long as
// the scene is acted on.
type Clients interface {
	Count() int
	Pause(i int) (resume func(), err error) // SIGSTOP
	Kill(i int) error                       // SIGKILL; another client takes its place
}

// Member returns the server that was chosen.
func (s *Scene) Member() *cluster.Member { return s.Cluster.Members[s.Node] }

// Suits reports whether it makes sense on servers of an engine.
func (k Kind) Suits(e *cluster.Engine) bool {
	if len(k.On) == 0 {
		return k.OfClients || !e.Local
	}
	return slices.Contains(k.On, e.Name)
}

// Costs returns what it can cost a server of an engine.
func (k Kind) Costs(e *cluster.Engine, p cluster.Persistence) (loss cluster.Loss) {
	if k.Forgets {
		loss = cluster.Registers
	}
	if k.Crash && e.Crash != nil {
		loss = max(loss, e.Crash(p))
	}
	if k.Start && e.Start != nil {
		loss = max(loss, e.Start(p))
	}
	return loss
}

// BreaksOn is what it breaks on servers of an engine: a clock that no lease ends by
// breaks nothing.
func (k Kind) BreaksOn(e *cluster.Engine) string {
	if k.Breaks == sameRate && !e.WallClock {
		return ""
	}
	return k.Breaks
}

// The names of engines.
var (
	onValkey    = []string{cluster.Valkey.Name}
	onDatabases = []string{cluster.Postgres.Name, cluster.MySQL.Name}
)

// Names returns the names of a list.
func Names(list []Kind) (all []string) {
	for _, k := range list {
		all = append(all, k.Name)
	}
	return all
}

// Index returns where a list has the kind of a name, -1 if it has not.
func Index(list []Kind, name string) int {
	return slices.IndexFunc(list, func(k Kind) bool { return k.Name == name })
}

// The assumptions that faults break, as docs/promises.md declares them.
const (
	samePlace  = "the file is deleted or replaced only when no program uses it"
	sameRate   = "clocks run at about the same rate"
	noEviction = "maxmemory-policy is noeviction"
)

// What the libraries state. redsync follows the description of Redlock. That is independent
// primaries, clocks at the same rate, and a holder that is done within its validity. Memory
// survives a crash (fsync always, or a restart delayed by hand); the network and the processes may
// be as slow as they like. redislock states nothing: it gets what holds for any one server that
// keeps its memory and its clock.
var (
	everybody   = library.All
	rivals      = []string{library.Redsync, library.Redislock}
	onlyFenlock = []string{library.Fenlock}
)

// Allows reports whether a fault is within what a library states, on servers with
// this persistence.
func (k Kind) Allows(library string, p cluster.Persistence) bool {
	return slices.Contains(k.Within, library) || p == cluster.Always && slices.Contains(k.Durable, library)
}
