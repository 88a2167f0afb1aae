package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// porcupineTimeout is for each name. The check of 20,000 events takes seconds.
const porcupineTimeout = time.Minute

// operations returns what happened to a name as porcupine wants it: each
// operation with the time within which it took effect. Names have nothing in
// common, so each is checked alone.
//
// Left out is only what no order could fail for:
//
//   - An acquisition of unknown outcome, such as that of a client that was killed, stays open to
//     the end. It may take effect at any time from when it was asked for, or never. It may end
//     again at any time after. If some order with it is legal, the same order without it is. What
//     it does, to hold the lock and raise the largest token, only stands in others' way, and its
//     token is not used. If it was used, it is a tenure like others (see advance), which had begun
//     by then and whose end is not known.
//   - One that failed holds nothing, by its client's account; the argument is the same.
//   - Extensions, and what a client believes: the model has no time. They are in
//     when a tenure may end.
//   - That the resource is used: its events are in its own order and each took effect
//     at that very moment, so nothing is simplified there.
func (x *examination) operations(name string) []porcupine.Operation {
	tenures := x.byToken(name)
	var ops []porcupine.Operation
	for i, t := range tenures {
		acquires := operation{acquire, t.token, t.id()}
		if t.shared {
			acquires.action = acquireShared
		}
		ops = append(ops, porcupine.Operation{ClientId: t.client, Input: acquires, Call: t.asked, Return: t.start})
		end, needed := x.ending(t, follower(t, tenures[i+1:]))
		if needed {
			ops = append(ops, end)
		}
		if t.shares != 0 && !t.shared {
			ops = append(ops, x.downgrading(t, end, needed))
		}
	}
	for i, e := range x.Events {
		if e.Name != name || e.Kind != ReadValue && e.Kind != Wrote && e.Kind != Refused {
			continue
		}
		o := operation{action: use, token: e.Token}
		switch {
		case e.Kind == Refused && e.Shared:
			o.action = refuseLook
		case e.Kind == Refused:
			o.action = refuse
		case e.Shared:
			o.action = look
		}
		ops = append(ops, porcupine.Operation{ClientId: x.of[i].client, Input: o, Call: e.At, Return: e.At})
	}
	return ops
}

// follower returns the first tenure that cannot begin before this one has ended, of those
// that come after it in the order of tokens; nil if there is none. One with the same token
// is illegal anyway, unless both share the name.
func follower(t *tenure, later []*tenure) *tenure {
	for _, next := range later {
		if t.shares == 0 || !next.shared {
			return next
		}
	}
	return nil
}

// downgrading returns the operation by which who had a name alone shares it. Where it is not known
// when it took effect, or whether, it did so before the end. To share the name just before one
// leaves it lets no other client in.
func (x *examination) downgrading(t *tenure, end porcupine.Operation, needed bool) porcupine.Operation {
	op := porcupine.Operation{ClientId: t.client, Input: operation{downgrade, t.token, t.id()}, Call: t.shares,
		Return: x.end}
	if needed {
		// It may have ended before that was asked for.
		op.Return, op.Call = end.Return, min(op.Call, end.Call)
	}
	if t.downgraded != 0 {
		op.Return = min(op.Return, t.downgraded)
	}
	op.Return = max(op.Return, op.Call)
	return op
}

// ending returns the operation that ends a tenure. Next is the first one that cannot begin
// before that: see follower.
//
// A tenure ends once. When released cleanly, it ended between the call and the return of the
// release. A release promises that the lock was held up to the call. Otherwise it expired, no
// earlier than its client could believe in it. In both cases it may have ended sooner if an
// assumption was broken after it was asked for, but no sooner than that.
//
// An expiry stays open to the end of the history. But it has to come before the
// next acquisition, since that finds the lock free, and that took effect before
// it returned. Acquisitions are in the order of their tokens, in every legal
// order, so it is known which one is next. To give the expiry the return of the
// next acquisition therefore excludes nothing, and keeps porcupine from trying to
// put it anywhere later. If there is no next one, nothing depends on it: it
// is left out.
func (x *examination) ending(t, next *tenure) (op porcupine.Operation, needed bool) {
	op = porcupine.Operation{ClientId: t.client, Input: operation{release, t.token, t.id()}, Call: t.release,
		Return: t.released}
	if !t.clean {
		if next == nil {
			return op, false
		}
		op.Input = operation{expire, t.token, t.id()}
		op.Call, op.Return = t.expires(), next.start
	}
	if _, at := x.faults.breaks(t.asked, op.Call); at != 0 {
		op.Call = at
	}
	if t.shares != 0 {
		op.Input = operation{leave, t.token, t.id()}
	}
	// Too late for the next one to begin: porcupine will find so.
	op.Return = max(op.Return, op.Call)
	return op, true
}

// porcupine checks that the operations of each name can be put into an order that the model allows.
// In it, none may come before an operation that had returned when it was called.
func (x *examination) porcupine(model porcupine.Model, timeout time.Duration) {
	for _, name := range x.Header.Names {
		ops := x.operations(name)
		x.report.Operations += len(ops)
		switch porcupine.CheckOperationsTimeout(model, ops, timeout) {
		case porcupine.Unknown:
			x.violated(x.end, Porcupine, "",
				fmt.Sprintf("porcupine timed out: %q has %d operations, and %v were not enough", name, len(ops), timeout))
		case porcupine.Illegal:
			at, text := x.explain(model, ops, timeout)
			x.violated(at, Porcupine, x.tokensExcuse(at), fmt.Sprintf("%q: %s", name, text))
		}
	}
}

// explain says how far porcupine came. It names the operations that the longest order has, and the
// one that had to come next, because it returned, and could not.
//
// Porcupine's own account of that takes minutes for a large history.
func (x *examination) explain(model porcupine.Model, ops []porcupine.Operation, timeout time.Duration) (at int64,
	text string) {
	type progress struct {
		state any
		done  int
	}
	numbered := slices.Clone(ops)
	for i := range numbered {
		numbered[i].Output = i
	}
	longest, last, stuck := 0, -1, -1
	// Called from one goroutine, which has ended when porcupine says Illegal.
	result := porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: func() any { return progress{state: model.Init()} },
		Step: func(state, input, output any) (bool, any) {
			p, i := state.(progress), output.(int)
			possible, next := model.Step(p.state, input, nil)
			switch {
			case possible && p.done == longest:
				longest, last, stuck = longest+1, i, -1
			case !possible && p.done == longest && (stuck < 0 || ops[i].Return < ops[stuck].Return):
				stuck = i
			}
			return possible, progress{next, p.done + 1}
		},
	}, numbered, timeout)
	if result != porcupine.Illegal || stuck < 0 {
		return x.end, fmt.Sprintf("no order explains the %d operations", len(ops))
	}
	after := "nothing"
	if last >= 0 {
		after = fmt.Sprint(ops[last].Input)
	}
	return ops[stuck].Return, fmt.Sprintf("no order explains the %d operations: %d fit, but after %s there can be no %v of client %d, from %v to %v after the start",
		len(ops), longest, after, ops[stuck].Input, ops[stuck].ClientId, x.since(ops[stuck].Call), x.since(ops[stuck].Return))
}
