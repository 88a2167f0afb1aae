package history

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// What operations.go leaves out or cuts short, it says, excludes nothing. The naive version here
// leaves out nothing. Every expiry stays open to the end. So does an acquisition of unknown
// outcome, which may take effect with any token, or never, and may expire, or never. Both say the
// same of random histories.

const (
	maybeAcquire   action = "maybe acquire"
	maybeExpire    action = "maybe expire"
	maybeDowngrade action = "maybe downgrade"
	either         action = "release or leave" // of holders that may have let others share it, or not
)

// unknownHolder is added to what tells acquisitions of unknown outcome apart.
const unknownHolder = 1000

func naiveModel(largestToken uint64) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{mutex{}} },
		Step: func(state, input, _ any) []any {
			m, o := state.(mutex), input.(operation)
			switch o.action {
			case maybeAcquire:
				next := []any{m}
				for token := m.largest; token <= largestToken; token++ {
					for _, a := range []action{acquire, acquireShared} {
						if got, possible := m.step(operation{a, token, o.id}); possible {
							if a == acquire {
								got.holder = unknownHolder + uint64(o.id)
							}
							next = append(next, got)
						}
					}
				}
				return next
			case maybeExpire:
				gone := m
				if m.holder == unknownHolder+uint64(o.id) {
					gone.holder = 0
				}
				gone.readers = m.readers.without(o.id)
				return []any{m, gone}
			}
			if o.action == either {
				o.action = leave
				if m.holder == o.token {
					o.action = release
				}
			}
			if o.action == maybeDowngrade {
				o.action = downgrade
				if next, possible := m.step(o); possible {
					return []any{m, next}
				}
				return []any{m}
			}
			if next, possible := m.step(o); possible {
				return []any{next}
			}
			return nil
		},
	}
	return model.ToModel()
}

func (x *examination) naiveOperations() []porcupine.Operation {
	var ops []porcupine.Operation
	end := x.end * 2 // later than any Until
	add := func(a action, t *tenure, from, to int64) {
		ops = append(ops, porcupine.Operation{Input: operation{a, t.token, t.id()}, Call: from, Return: to})
	}
	for i, e := range x.Events {
		t := x.of[i]
		switch e.Kind {
		case Acquire:
			switch {
			case t.start != 0 && t.shared:
				add(acquireShared, t, t.asked, t.start)
			case t.start != 0:
				add(acquire, t, t.asked, t.start)
			default:
				add(maybeAcquire, t, t.asked, end)
				add(maybeExpire, t, t.asked, end)
			}
		case ReadValue, Wrote:
			if e.Shared {
				add(look, t, e.At, e.At)
			} else {
				add(use, t, e.At, e.At)
			}
		case Refused:
			if e.Shared {
				add(refuseLook, t, e.At, e.At)
			} else {
				add(refuse, t, e.At, e.At)
			}
		}
	}
	for _, t := range x.tenures {
		kind, from, to := release, t.release, t.released
		if !t.clean {
			kind, from, to = expire, t.end(), end
			if t.until == 0 {
				from = t.asked
			}
		}
		if _, at := x.faults.breaks(t.asked, from); at != 0 {
			from = at
		}
		switch {
		case t.shared:
			kind = leave
		case t.shares != 0:
			kind = either
			add(maybeDowngrade, t, min(t.shares, from), end)
		}
		add(kind, t, from, to)
	}
	return ops
}

const randomTokens = 9

// randomHistory has a few tenures at random times, good or bad.
func randomHistory(rng *rand.Rand) *History {
	h := &History{Header: Header{Library: "fenlock", Clients: 1, Names: []string{"a"}, TTL: 1, MaxTTL: 1}}
	add := func(e Event) {
		e.Name = "a"
		h.Events = append(h.Events, e)
	}
	token, at := uint64(0), int64(10)
	for client := range 2 + rng.IntN(3) {
		e := Event{Client: client + 1, Op: 1}
		is := func(kind Kind, after int64) Event {
			e.Kind, e.At = kind, e.At+after
			return e
		}
		e.At = max(1, at-rng.Int64N(20))
		e.Shared = rng.IntN(2) == 0
		add(is(Acquire, 0))
		shares := e.Shared
		if rng.IntN(5) == 0 {
			continue // of unknown outcome
		}
		token += 1 + rng.Uint64N(2)
		e.Token = token
		if rng.IntN(8) == 0 || shares && rng.IntN(2) == 0 {
			e.Token = max(2, token) - 1
		}
		got := is(Acquired, max(1, at-e.At+rng.Int64N(4)))
		got.Until = got.At + rng.Int64N(20)
		add(got)
		for range rng.IntN(3) {
			kind := []Kind{ReadValue, Wrote, Refused}[rng.IntN(3)]
			if e.Shared = shares; shares && kind == Wrote {
				kind = ReadValue
			}
			add(is(kind, 1+rng.Int64N(4)))
			if rng.IntN(4) == 0 {
				add(is(Downgrade, rng.Int64N(2)))
				shares = true
				if rng.IntN(2) == 0 {
					done := is(Downgraded, 1+rng.Int64N(2))
					done.Text = []string{"", "no"}[rng.IntN(2)]
					add(done)
				}
			}
		}
		if rng.IntN(2) == 0 {
			add(is(Release, 1+rng.Int64N(3)))
			done := is(Released, 1+rng.Int64N(3))
			done.Text = []string{"", "lost"}[rng.IntN(2)]
			add(done)
		}
		at = max(at, e.At+rng.Int64N(20)-5)
	}
	if rng.IntN(3) == 0 {
		add(Event{Kind: Fault, Fault: "clock", Breaks: "clocks", At: 1 + rng.Int64N(at)})
		add(Event{Kind: Healed, Fault: "clock", At: h.Events[len(h.Events)-1].At})
	}
	add(Event{Kind: Quiet, At: 500})
	add(Event{Kind: End, At: 501})
	h.Events = Merge(h.Events)
	return h
}

func TestOperationsSayWhatTheNaiveOnesSay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	naive, legal, unknown := naiveModel(randomTokens+4), 0, 0
	const histories = 1000
	for range histories {
		h := randomHistory(rng)
		r, err := newRecord(h)
		if err != nil {
			t.Fatalf("%v: %+v", err, h.Events)
		}
		x := &examination{record: r}
		got := porcupine.CheckOperationsTimeout(fencedMutex(), x.operations("a"), time.Minute)
		want := porcupine.CheckOperationsTimeout(naive, x.naiveOperations(), time.Minute)
		if got != want {
			t.Fatalf("porcupine says %v; and %v of the naive operations of %+v", got, want, h.Events)
		}
		if got == porcupine.Ok {
			legal++
			unknown += min(r.unknown, 1)
		}
	}
	if legal < histories/10 || legal > histories*9/10 || unknown < histories/50 {
		t.Errorf("of %d histories %d are legal, %d of them with something unknown: that shows little", histories, legal,
			unknown)
	}
}
