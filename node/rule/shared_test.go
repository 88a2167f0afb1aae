package rule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// naiveShared is a node with names that may be shared, written from what the contract says and not
// from shared.go. All holders of a lease or a reservation are in one map.
type naiveShared struct {
	register, epoch fence.Token
	leases          map[string]naiveLease // by holder, or "next " and the waiter
	waiters         map[string]int64
	gone            map[string]bool
	now             time.Duration
}

type naiveLease struct {
	alone  bool
	until  time.Duration
	origin fence.Token
}

func (n *naiveShared) tidy() {
	for h, l := range n.leases {
		if n.now >= l.until {
			delete(n.leases, h)
		}
	}
	if !n.promised() {
		n.epoch = 0 // the next ones may come after another holder
	}
}

// promised reports whether a holder has the name, beside reservations.
func (n *naiveShared) promised() bool {
	for h := range n.leases {
		if !strings.HasPrefix(h, "next ") {
			return true
		}
	}
	return false
}

// alone reports whether there is an exclusive holder.
func (n *naiveShared) alone() bool {
	for _, l := range n.leases {
		if l.alone {
			return true
		}
	}
	return false
}

// agree reports whether all who have the name have one of as many slots.
func (n *naiveShared) agree(h string) bool {
	for other := range n.leases {
		if !strings.HasPrefix(other, "next ") && strings.Trim(h, "abc") != strings.Trim(other, "abc") &&
			strings.Contains(h+other, "/") {
			return false
		}
	}
	return true
}

func (n *naiveShared) first() string {
	return (&naive{waiters: n.waiters}).first()
}

func (n *naiveShared) join(w string, stamp int64) {
	(&naive{waiters: n.waiters}).enqueue(node.Place{Waiter: w, Stamp: stamp})
}

func (n *naiveShared) call(self string) (notified []string) {
	for {
		w := n.first()
		reads := strings.Contains(w, ":0")
		switch {
		case w == "" || w == self || n.alone() || reads && len(n.leases) >= MaxReaders:
			return notified
		case !reads && len(n.leases) > 0 && !n.gone[w]:
			return notified
		}
		delete(n.waiters, w)
		if n.gone[w] {
			continue
		}
		n.leases["next "+w] = naiveLease{!reads, n.now + time.Second, 0}
		notified = append(notified, w)
	}
}

func (n *naiveShared) acquire(h, w string, stamp int64, shared bool, ttl time.Duration,
	proposal fence.Token) (status node.Status, number fence.Token, notified []string) {
	own, called := n.leases["next "+w]
	called = called && w != "" && own.alone == !shared
	if called {
		delete(n.leases, "next "+w)
	}
	open := len(n.leases) == 0 || shared && !n.alone()
	if open && !called && len(n.waiters) > 0 {
		n.join(w, stamp)
		notified = n.call(w)
		open = (len(n.leases) == 0 || shared && !n.alone()) && (n.first() == "" || n.first() == w)
	}
	if _, again := n.leases[h]; !open || again || shared && !n.agree(h) || shared && len(n.leases) >= MaxReaders {
		n.join(w, stamp)
		return node.Held, 0, notified
	}
	number = n.epoch
	if !shared || n.epoch == 0 {
		n.register = max(n.register+1, proposal)
		number = n.register
	}
	n.epoch = 0
	if shared {
		n.epoch = number
	}
	n.leases[h] = naiveLease{!shared, n.now + ttl, number}
	delete(n.waiters, w)
	if shared {
		notified = append(notified, n.call("")...)
	}
	return node.Granted, number, notified
}

func (n *naiveShared) extend(h string, shared bool, ttl time.Duration, floor fence.Token) (status node.Status,
	origin fence.Token, notified []string) {
	own, leased := n.leases[h]
	promised, alone := n.promised(), n.alone()
	switch {
	case leased && own.alone && !shared: // renewed
	case leased && shared: // renewed, or shared from now on
		if own.alone {
			n.epoch = 0
		}
		own.alone = false
	case leased: // it has agreed to share it
		return node.Lost, 0, nil
	case promised && shared && !n.agree(h):
		return node.Lost, 0, nil
	case !promised && (!shared || alone):
		clear(n.leases)
		own, n.epoch = naiveLease{alone: !shared, origin: n.register}, 0
	case shared && !alone:
		own = naiveLease{origin: n.register}
	default:
		return node.Lost, 0, nil
	}
	own.until = n.now + ttl
	was := n.leases[h].alone
	n.leases[h] = own
	n.register = max(n.register, floor)
	if floor > n.epoch {
		n.epoch = 0 // a late client gets a number past the floor
	}
	if was && !own.alone {
		notified = n.call("")
	}
	return node.Granted, own.origin, notified
}

func (n *naiveShared) confirm(h string, token fence.Token) (status node.Status, register fence.Token) {
	_, leased := n.leases[h]
	switch {
	case !leased:
		return node.Lost, 0
	case n.register > token:
		return node.Outrun, n.register
	}
	n.register = token
	if n.epoch != 0 {
		n.epoch = token
	}
	return node.Granted, token
}

func (n *naiveShared) release(h, w string, stamp int64) (status node.Status, notified []string) {
	status = node.Lost
	if _, leased := n.leases[h]; leased {
		delete(n.leases, h)
		status = node.Granted
	}
	freed := status == node.Granted
	n.tidy()
	if _, reserved := n.leases["next "+w]; reserved && w != "" {
		delete(n.leases, "next "+w)
		freed = true
		n.tidy()
	}
	if stamp == 0 {
		delete(n.waiters, w)
	} else {
		n.join(w, stamp)
	}
	if freed || len(n.leases) > 0 && !n.alone() {
		notified = n.call(w)
	}
	return status, notified
}

// Random operations on few holders and waiters, beside the naive node; and what the other nodes and
// the holders rely on: no client is granted a name that has an exclusive holder. No number is
// promised to two unless both share the name and no exclusive holder was between them.
func TestSharedAgainstANaiveNode(t *testing.T) {
	const client = "0123456789abcdef0123456789abcdef:"
	random := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]int{}
	for range 400 {
		gone := map[string]bool{}
		e, q := Entry{}, &testQueue{gone: gone}
		n := naiveShared{leases: map[string]naiveLease{}, waiters: map[string]int64{}, gone: gone}
		type promise struct{ turn int }
		promised, turn := map[fence.Token]promise{}, 0
		var log []string
		for range 300 {
			n.tidy()
			h := []string{"h0", "h1", client[:32] + "@1/3:a", client[:32] + "@1/3:b", client[:32] + "@1/4:c"}[random.IntN(5)]
			shared := random.IntN(3) > 0
			w := client + []string{"1", "2", "3"}[random.IntN(3)]
			if shared {
				w = client + []string{"01", "02", "03"}[random.IntN(3)]
			}
			if random.IntN(4) == 0 {
				w = ""
			}
			stamp := 1 + random.Int64N(4)
			ttl := time.Duration(1+random.IntN(200)) * 10 * time.Millisecond
			token := fence.Token(random.IntN(40))
			r := node.Request{Holder: node.Holder(h), TTL: ttl, Token: token, Shared: shared,
				Place: node.Place{Waiter: w, Stamp: stamp}}
			before := e
			var a, want node.Answer
			var notify, wantNotify []string
			switch op := random.IntN(11); {
			case op < 4:
				r.Op = node.Acquire
				if err := CheckShared(r); err != nil {
					t.Fatal(err)
				}
				had := n.alone()
				a, notify = ServeShared(&e, q, n.now, r)
				want.Status, want.Register, wantNotify = n.acquire(h, w, stamp, shared, ttl, token)
				if a.Status != node.Granted {
					break
				}
				if had && !before.Holder.Reserves() {
					t.Fatalf("granted beside one who has it alone: %+v", before)
				}
				if !shared || !before.sharedAt(n.now) {
					turn++
				}
				if p, again := promised[a.Register]; again && (!shared || p.turn != turn) {
					t.Fatalf("%d was promised before\n%s", a.Register, strings.Join(log, "\n"))
				}
				promised[a.Register] = promise{turn}
			case op < 6:
				r.Op = node.Extend
				a, notify = ServeShared(&e, q, n.now, r)
				want.Status, want.Register, wantNotify = n.extend(h, shared, ttl, token)
				if !e.sharedAt(n.now) || !before.sharedAt(n.now) {
					turn++
				}
			case op < 8:
				r.Op = node.Release
				if random.IntN(2) == 0 {
					r.Place.Stamp = 0
				}
				a, notify = ServeShared(&e, q, n.now, r)
				want.Status, wantNotify = n.release(h, w, r.Place.Stamp)
			case op < 9:
				n.now += time.Duration(random.IntN(150)) * 10 * time.Millisecond
				n.tidy()
				continue
			case op < 10:
				r.Op, r.Token = node.Confirm, max(1, n.register+token/10-1)
				a, notify = ServeShared(&e, q, n.now, r)
				want.Status, want.Register = n.confirm(h, r.Token)
				if _, again := promised[r.Token]; !again && a.Status == node.Granted {
					promised[r.Token] = promise{turn}
				}
			default:
				gone[w] = w != "" && !gone[w]
				continue
			}
			kinds[fmt.Sprintf("%v, shared %v: %v, %d told", r.Op, shared, a.Status, min(len(notify), 2))]++
			log = append(log, fmt.Sprintf("%v: %v shared %v by %s for %s, %d: %v %d, notify %q; %q, %v", n.now, r.Op, shared, h,
				w, r.Place.Stamp, a.Status, a.Register, notify, e.Holder[:], q.Waiters))
			same := a.Status == want.Status && a.Register == want.Register && slices.Equal(notify, wantNotify) &&
				e.Register == n.register && len(q.Waiters) == len(n.waiters)
			if s, isShared := e.readers(n.now); isShared {
				same = same && len(s.all) == len(n.leases) && !n.alone()
				for _, m := range s.all {
					l := n.leases[strings.Replace(string(m.holder), "next:", "next ", 1)]
					same = same && l == naiveLease{false, m.expires, m.origin}
				}
			} else {
				l := n.leases[strings.Replace(string(e.Holder), "next:", "next ", 1)]
				same = same && len(n.leases) == 1 && l.alone && l.until == e.Expires
			}
			if !same {
				t.Fatalf("the naive one says %v %d, notify %q, and is %+v\n%s", want.Status, want.Register, wantNotify, n,
					strings.Join(log[max(0, len(log)-15):], "\n"))
			}
		}
	}
	for _, seen := range []string{
		"acquire, shared true: granted, 2 told", "acquire, shared true: granted, 0 told",
		"acquire, shared false: granted, 0 told", "acquire, shared true: held, 1 told",
		"confirm, shared true: granted, 0 told", "confirm, shared true: outrun, 0 told",
		"extend, shared true: granted, 1 told", "extend, shared true: granted, 0 told", "extend, shared true: lost, 0 told",
		"release, shared true: granted, 2 told", "release, shared false: granted, 2 told",
	} {
		if kinds[seen] == 0 {
			t.Errorf("never seen: %s; there were %v", seen, kinds)
		}
	}
}

// A confirm that is executed again, after its holder lets others share the name, makes no epoch.
// What a reader is promised on two of three nodes, whose registers differed, is larger than the
// holder's token.
func TestConfirmAgainAfterDowngrade(t *testing.T) {
	for _, register := range []fence.Token{1, 0} {
		e := Entry{Register: register}
		do := func(op node.Op, h node.Holder, token fence.Token, shared bool) node.Answer {
			a, _ := ServeShared(&e, nil, 0, node.Request{Op: op, Holder: h, TTL: time.Hour, Token: token, Shared: shared})
			return a
		}
		do(node.Acquire, "A", 0, false)
		do(node.Confirm, "A", 2, false)
		do(node.Extend, "A", 0, true)
		if a := do(node.Confirm, "A", 2, false); a != (node.Answer{Status: node.Granted, Register: 2}) {
			t.Errorf("confirmed again: %+v", a)
		}
		if a := do(node.Acquire, "B", 0, true); a.Register <= 2 {
			t.Errorf("a reader is promised %d, and 2 is the token of a holder that had the name alone", a.Register)
		}
	}
}

// What was changed by hand is no time, and no number that is promised.
func TestNumbersOfReadersChangedByHand(t *testing.T) {
	large := strings.Repeat("9", 30)
	e := Entry{Holder: node.Holder("shared:" + large + "\n" + large + " 7 0 a\n1000 " + large + " 0 b\n1000 x -1 c"),
		Expires: 1000, Register: 5}
	s, shared := e.readers(0)
	if !shared || s.epoch != 0 || len(s.all) != 2 || s.all[0] != (reader{"b", 1000, 0, 0}) ||
		s.all[1] != (reader{"c", 1000, 0, 0}) {
		t.Errorf("%+v, shared: %v", s, shared)
	}
}

// A release is carried out by a node that is out, too, and reserves the name for those who want to
// share it. The first of them, who comes when the node was admitted, is not promised the number of
// before the loss.
func TestEpochEndsWithItsReaders(t *testing.T) {
	s := Store{}
	do := func(now time.Duration, r node.Request) node.Answer {
		r.Name, r.TTL = "x", time.Second
		o := s.Begin(r.Name, now, func(string) bool { return true })
		a, _ := ServeShared(&o.Entry, o, now, r)
		o.Commit()
		return a
	}
	do(0, node.Request{Op: node.Acquire, Holder: "A", Shared: true, Token: 70})
	do(0, node.Request{Op: node.Acquire, Holder: "B", Place: node.Place{Waiter: "c:1", Stamp: 1}})
	do(0, node.Request{Op: node.Acquire, Holder: "C", Shared: true, Place: node.Place{Waiter: "c:02", Stamp: 2}})
	do(0, node.Request{Op: node.Acquire, Holder: "E", Shared: true, Place: node.Place{Waiter: "c:03", Stamp: 3}})
	s.Out = true // it is set back to this, and noted to be out: its quarantine is over after 1.012 s
	do(990*time.Millisecond, node.Request{Op: node.Release, Holder: "B", Place: node.Place{Waiter: "c:1"}})
	s.Registers[node.Stripe("x")] = 100 // rebuilt
	s.Out = false                       // and admitted
	if a := do(1100*time.Millisecond,
		node.Request{Op: node.Acquire, Holder: "C", Shared: true,
			Place: node.Place{Waiter: "c:02", Stamp: 2}}); a.Register <= 100 {
		t.Errorf("granted %d where 100 was promised", a.Register)
	}
}
