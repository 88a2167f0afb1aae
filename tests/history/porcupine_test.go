package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A sharer of a name may have the token of others, and comes and goes beside them.
func TestMutexModelShared(t *testing.T) {
	is := func(a action, token uint64, id int) operation { return operation{a, token, id} }
	tests := []struct {
		name string
		ops  []operation
		last bool // whether the last is possible; all before are
	}{
		{"two of one token", []operation{is(acquireShared, 5, 1), is(acquireShared, 5, 2), is(leave, 5, 1), is(leave, 5, 2),
			is(acquire, 6, 3)}, true},
		{"of two tokens", []operation{is(acquireShared, 5, 1), is(acquireShared, 7, 2), is(leave, 5, 1)}, true},
		{"a smaller one later", []operation{is(acquireShared, 5, 1), is(acquireShared, 4, 2)}, false},
		{"a reader beside a writer", []operation{is(acquire, 5, 1), is(acquireShared, 6, 2)}, false},
		{"a writer beside a reader", []operation{is(acquireShared, 5, 1), is(acquireShared, 5, 2), is(leave, 5, 1),
			is(acquire, 6, 3)}, false},
		{"a reader with a writer's token", []operation{is(acquire, 5, 1), is(release, 5, 1), is(acquireShared, 5, 2)}, false},
		{"a writer with a reader's token", []operation{is(acquireShared, 5, 1), is(leave, 5, 1), is(acquire, 5, 2)}, false},
		{"somebody leaves twice", []operation{is(acquireShared, 5, 1), is(acquireShared, 5, 2), is(leave, 5, 1),
			is(leave, 5, 1)}, false},
		{"a writer lets readers in", []operation{is(acquire, 5, 1), is(downgrade, 5, 1), is(acquireShared, 5, 2),
			is(leave, 5, 1), is(leave, 5, 2)}, true},
		{"a writer that let readers in holds on", []operation{is(acquire, 5, 1), is(downgrade, 5, 1), is(acquire, 6, 2)},
			false},
		{"readers read in any order", []operation{is(acquireShared, 5, 1), is(acquireShared, 6, 2), is(look, 6, 2),
			is(look, 5, 1)}, true},
		{"a write under a later reader",
			[]operation{is(acquire, 5, 1), is(expire, 5, 1), is(acquireShared, 6, 2), is(look, 6, 2), is(use, 5, 1)}, false},
		{"which is refused", []operation{is(acquire, 5, 1), is(expire, 5, 1), is(acquireShared, 6, 2), is(look, 6, 2),
			is(refuse, 5, 1)}, true},
		{"a read after a later write",
			[]operation{is(acquireShared, 5, 1), is(leave, 5, 1), is(acquire, 6, 2), is(use, 6, 2), is(look, 5, 1)}, false},
		{"which is refused, too", []operation{is(acquireShared, 5, 1), is(leave, 5, 1), is(acquire, 6, 2), is(use, 6, 2),
			is(refuseLook, 5, 1)}, true},
		{"a read that is refused for another read",
			[]operation{is(acquireShared, 5, 1), is(acquireShared, 6, 2), is(look, 6, 2), is(refuseLook, 5, 1)}, false},
	}
	for _, test := range tests {
		var m mutex
		for i, o := range test.ops {
			next, possible := m.step(o)
			if want := i < len(test.ops)-1 || test.last; possible != want {
				t.Errorf("%s: %v of %d is possible: %t; want %t", test.name, o, o.id, possible, want)
			}
			m = next
		}
	}
}

func TestMutexModel(t *testing.T) {
	tests := []struct {
		ops  string
		last bool // whether the last is possible; all before are
	}{
		{"acquire 5, release 5, acquire 6", true},
		{"acquire 5, expire 5, acquire 6", true},
		{"acquire 5, acquire 6", false},
		{"acquire 5, release 5, acquire 5", false},
		{"acquire 5, release 5, acquire 4", false},
		{"acquire 5, release 4", false},
		{"release 5", false},
		{"acquire 5, release 5, expire 5", false},
		{"acquire 5, use 5, use 5", true},
		{"acquire 5, expire 5, use 5", true},
		{"acquire 5, expire 5, acquire 6, use 5", true}, // the resource has not seen 6
		{"acquire 5, expire 5, acquire 6, use 6, use 5", false},
		{"acquire 5, use 6", false},
		{"acquire 5, expire 5, acquire 6, use 6, refuse 5", true},
		{"acquire 5, expire 5, acquire 6, use 6, refuse 6", false},
		{"acquire 5, expire 5, acquire 6, refuse 5", false}, // nor has it here
	}
	for _, test := range tests {
		ops := strings.Split(test.ops, ", ")
		var m mutex
		for i, text := range ops {
			var o operation
			if _, err := fmt.Sscanf(text, "%s %d", &o.action, &o.token); err != nil {
				t.Fatal(err)
			}
			next, possible := m.step(o)
			if want := i < len(ops)-1 || test.last; possible != want {
				t.Errorf("%s: %s is possible: %t; want %t", test.ops, text, possible, want)
			}
			m = next
		}
	}
}

// find returns the operations with an action and a token.
func find(ops []porcupine.Operation, o operation) []porcupine.Operation {
	return slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool {
		is := op.Input.(operation)
		return is.action != o.action || is.token != o.token
	})
}

func operationsOf(t *testing.T, texts ...string) []porcupine.Operation {
	t.Helper()
	r, err := newRecord(script(t, "fenlock", texts...))
	if err != nil {
		t.Fatal(err)
	}
	return (&examination{record: r}).operations("a")
}

// When the operations that end a tenure may take effect, in ms.
func TestEndings(t *testing.T) {
	tests := []struct {
		name     string
		change   []string
		fault    string
		op       operation
		from, to int64
	}{
		{"a clean release", nil, "", operation{release, 10, 0}, 500, 520},
		{"a clean release after a fault", nil, "450 fault fault=x breaks=y\n451 healed fault=x", operation{release, 10, 0},
			450, 520},
		{"a fault before", nil, "1 fault fault=x\n2 fault fault=z breaks=y\n3 healed fault=z", operation{release, 11, 0}, 0,
			0},
		{"a lost lock: until it ended", nil, "", operation{expire, 11, 0}, 1690, 1700},
		{"a lost lock that said so early", []string{"1710", "1500 ended 2.1 text=lost"}, "", operation{expire, 11, 0}, 1500,
			1700},
		{"a lost lock after a fault", nil, "900 fault fault=x breaks=y\n901 healed fault=x", operation{expire, 11, 0}, 900,
			1700},
		{"a release that never returned", []string{"520", ""}, "", operation{expire, 10, 0}, 500, 510},
		{"no release at all", []string{"500 release", "", "520", "", "310", "310 extended 1.1 until=505"}, "",
			operation{expire, 10, 0}, 505 + 585, 510 + 580},
		{"the last one was lost", []string{"5160", "", "5170", ""}, "", operation{expire, 21, 0}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := find(operationsOf(t, with(t, test.change...), test.fault), test.op)
			if test.from == 0 {
				if len(got) != 0 {
					t.Errorf("got %+v; want none", got)
				}
				return
			}
			if len(got) != 1 || got[0].Call != test.from*1e6 || got[0].Return != test.to*1e6 {
				t.Errorf("got %+v; want one from %d to %d", got, test.from, test.to)
			}
		})
	}
}

// A client that was killed leaves its acquisition open: it may or may not have
// taken effect, whatever the others do.
func TestKilledClientLeavesItsAcquisitionOpen(t *testing.T) {
	if got := operationsOf(t, good); len(find(got, operation{acquire, 0, 0})) != 0 {
		t.Errorf("an acquisition without token is among %+v", got)
	}
	// Its token was used, so it took effect, by then, and ended at some time.
	used := "800 refused 3.1 token=9"
	stale := with(t, "200", "", "500 release", "", "520", "", "510", "", "530", "", "540", "", "550", "", "700", "",
		"1710", "", "1720", "", "1730", "",
		"310", "310 extended 1.1 until=590", "110", "110 acquired 1.1 token=10 until=590",
		"1740", "1740 read 1.2 token=14 value=1", "1750", "1750 wrote 1.2 token=14 base=1 value=2")
	tests := []struct {
		name, base, event string
		want              []string
	}{
		{"never seen", stale, "", nil},
		{"seen at the resource", stale, "800 read 3.1 token=11 value=1", nil},
		{"seen late", stale, "1745 refused 3.1 token=11", nil},
		{"seen with a token that does not grow", stale, used, []string{Porcupine, Tokens}},
		{"seen late with a token that is too large", stale, "1745 refused 3.1 token=15", []string{Porcupine}},
		{"seen with a token that somebody has", stale, "800 read 3.1 token=10 value=1", []string{Porcupine, Tokens}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := Check(script(t, "fenlock", test.base, test.event))
			if got := promises(r.Violations); !slices.Equal(got, test.want) {
				t.Errorf("broken are %v; want %v: %+v", got, test.want, r.Violations)
			}
			if unknown := 1; test.event == "" && r.Unknown != unknown || test.event != "" && r.Unknown != 0 {
				t.Errorf("%d are unknown", r.Unknown)
			}
		})
	}
}

// A checker that does not finish has found nothing out.
func TestTimedOut(t *testing.T) {
	hangs := fencedMutex()
	hangs.StepContext = func(ctx context.Context, _, _, _ any) (bool, any) {
		<-ctx.Done()
		return false, nil
	}
	r := examine(script(t, "fenlock", good), hangs, time.Millisecond)
	if len(r.Violations) != 1 {
		t.Errorf("got %+v; want one", r.Violations)
	}
	wantViolations(t, r.Violations, Porcupine, `porcupine timed out: "a" has 17 operations, and 1ms were not enough`)
}

// busy makes a history of clients who wait in the queue all the time, some of
// whom lose the lock.
func busy() *History {
	const clients, rounds = 8, 2500
	rng := rand.New(rand.NewPCG(1, 0))
	h := &History{Header: Header{
		Library: "fenlock", Clients: clients, Names: []string{"a"}, TTL: time.Second, MaxTTL: time.Second,
	}}
	now, token, value := int64(0), uint64(0), 0
	add := func(e Event) {
		now += 1 + rng.Int64N(1e6)
		e.At, e.Name = now, "a"
		h.Events = append(h.Events, e)
	}
	var line []int
	op := make([]int, clients+1)
	join := func(client int) {
		op[client]++
		add(Event{Kind: Acquire, Client: client, Op: op[client]})
		line = append(line, client)
	}
	for client := 1; client <= clients; client++ {
		join(client)
	}
	var late Event // of a client that is paused
	for range rounds {
		i := rng.IntN(min(3, len(line)))
		c := line[i]
		line = slices.Delete(line, i, i+1)
		token += 1 + rng.Uint64N(3)
		e := Event{Client: c, Op: op[c], Token: token}
		with := func(kind Kind) Event { e := e; e.Kind = kind; return e }
		got := with(Acquired)
		got.Until = now + 1e9
		add(got)
		read := with(ReadValue)
		read.Value = value
		add(read)
		if late.Client != 0 {
			late.Kind = Refused
			add(late)
			join(late.Client)
			late = Event{}
		} else if rng.IntN(3) == 0 { // it is paused, and its lease ends
			late = e
			now += 1e9
			continue
		}
		wrote := with(Wrote)
		wrote.Base, wrote.Value = value, value+1
		add(wrote)
		value++
		add(with(Release))
		if rng.IntN(5) == 0 {
			lost := with(Released)
			lost.Text = "no quorum"
			add(lost)
		} else {
			add(with(Released))
		}
		join(c)
	}
	add(Event{Kind: Quiet})
	for client := 1; client <= clients; client++ { // to satisfy progress
		op[client]++
		token++
		add(Event{Kind: Acquire, Client: client, Op: op[client]})
		add(Event{Kind: Acquired, Client: client, Op: op[client], Token: token, Until: now + 1e9})
		add(Event{Kind: Release, Client: client, Op: op[client]})
		add(Event{Kind: Released, Client: client, Op: op[client]})
		add(Event{Kind: Closed, Client: client})
	}
	add(Event{Kind: End})
	return h
}

// As large as the history of a campaign, all on one name.
func TestBusyHistory(t *testing.T) {
	h := busy()
	if len(h.Events) < 12000 {
		t.Fatalf("there are %d events only", len(h.Events))
	}
	r := Check(h)
	wantViolations(t, r.Violations, "", "")
	if r.Refused < 100 {
		t.Errorf("%d writes were refused only", r.Refused)
	}
	// One that is bad is found in time, too.
	half := h.Events[len(h.Events)/2].At
	bad := slices.IndexFunc(h.Events, func(e Event) bool { return e.Kind == Wrote && e.At > half })
	h.Events[bad].Kind = Refused
	wantViolations(t, Check(h).Violations, Porcupine, "there can be no refuse(")
}
