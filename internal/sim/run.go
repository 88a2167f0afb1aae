package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/internal/sim/proofsteps"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// run is what nodes, processes and locks know of the run that they are in. It has time and chance,
// what the run is like, and the checkers that are told what happens.
type run struct {
	engine
	profile profile
	names   []string
	stripes []int // of the names
	maxTTL  time.Duration
	terms   admit.Terms
	quietAt time.Duration // when the last fault is over
	quiet   bool
	founded bool   // a majority of the nodes has been admitted
	result  Result // what is known of it before the end

	stores     int // identities of stores that were given
	identities int // that were given to attempts and processes
	attempts   int
	served     func(client, at int, r node.Request, a node.Answer) // for scripts

	steps    *proofsteps.Steps
	validity check.Validity
	tokens   check.Tokens
	updates  check.Updates
	progress check.Progress

	enough func(Violation) bool
	ended  bool
}

// rests reports whether the run keeps an assumption.
func (w *run) rests(a assumption) bool { return w.profile.breaks&a == 0 }

func (w *run) violate(check, text string) {
	v := Violation{w.now, check, text}
	w.result.Violations = append(w.result.Violations, v)
	w.ended = w.ended || w.enough != nil && w.enough(v)
	if w.trace != nil {
		w.trace(fmt.Sprintf("%12.6fs  VIOLATION of %s: %s", w.now.Seconds(), check, text))
	}
}

// check notes that a promise is not kept, if the run keeps what the promise rests on.
func (w *run) check(restsOn assumption, promise, violation string) {
	if violation != "" && w.rests(restsOn) {
		w.violate(promise, violation)
	}
}

// count counts a fault.
func (w *run) count(f Fault) {
	w.result.Faults[f].All++
	if w.validity.Held(w.now) {
		w.result.Faults[f].Held++
	}
}

// newClock makes a clock within half a percent of true time. A whole percent between any two is
// what the drift of a lease allows for.
func (w *run) newClock() clock {
	return clock{ppm: int64(w.rng.IntN(10_001) - 5_000), offset: w.between(0, 100*time.Hour)}
}

// newNames chooses names. The first two of each three have one register.
func (w *run) newNames(n int) {
	w.names = slices.Clone(sharing[:n])
	for _, name := range w.names {
		w.stripes = append(w.stripes, node.Stripe(name))
	}
	w.validity, w.tokens, w.updates = check.NewValidity(n), check.NewTokens(n), check.NewUpdates(n)
}

// sharing are names of which the first two share a stripe.
var sharing = func() []string {
	first := make(map[int]string)
	for i := 0; ; i++ {
		name := fmt.Sprint("name ", i)
		if other, ok := first[node.Stripe(name)]; ok {
			return []string{other, name, "another name"}
		}
		first[node.Stripe(name)] = name
	}
}()

// groupTerms are the terms of a group of so many nodes.
func groupTerms(maxTTL time.Duration, nodes int) admit.Terms {
	var members []string
	for i := range nodes {
		members = append(members, fmt.Sprint("node-", i))
	}
	return admit.Terms{MaxTTL: maxTTL, Members: strings.Join(members, " ")}
}

func (w *run) lost() bool { return !w.quiet && w.chance(w.profile.loss) }

// delay is how long a message takes.
func (w *run) delay() time.Duration {
	d := 50*time.Microsecond + w.upTo(w.profile.trip)
	if !w.quiet && w.chance(w.profile.tail) {
		late := w.wide(3 * w.maxTTL)
		if late > 25*time.Millisecond {
			w.count(slow)
		}
		d += late
	}
	return d
}
