package rule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// FuzzOperations does any operations on one name of one node. After each of them it looks at what
// the other nodes and the holders rely on. Where no queue is full it also compares with a naive
// node.
func FuzzOperations(f *testing.F) {
	const acquire, extend, confirm, release, force, later, change = 0, 1, 2, 3, 4, 5, 6
	for _, seed := range [][]byte{
		{},
		// in turn
		{0, acquire, 1, 1, 9, acquire, 2, 2, 9, release, 1, 0, 0, acquire, 2, 2, 9},
		// passed over
		{0, acquire, 1, 0, 9, acquire, 2, 2, 9, acquire, 3, 3, 9, release, 1, 0, 0, later, 255, 0, 0, acquire, 3, 3, 9},
		// the later one first
		{0, acquire, 1, 0, 9, acquire, 2, 193, 9, acquire, 3, 69, 9, release, 1, 0, 0},
		// gone
		{0, acquire, 1, 0, 9, acquire, 2, 2, 9, change, 2, 0, 0, release, 1, 0, 0, acquire, 3, 3, 9},
		// extended again
		{0, acquire, 1, 0, 9, extend, 1, 0, 9, extend, 2, 0, 9, later, 255, 0, 0, extend, 1, 0, 9, confirm, 1, 0, 40},
		// by force
		{0, acquire, 1, 0, 9, force, 0, 0, 30, extend, 1, 0, 9, acquire, 2, 2, 255},
		// goes on waiting
		{0, acquire, 1, 0, 9, acquire, 2, 2, 9, release, 0, 2, 128, release, 1, 2, 0, acquire, 0, 2, 0},
		// out
		{0, change, 7, 1, 0, acquire, 1, 1, 1, extend, 1, 0, 1, confirm, 1, 0, 1, release, 1, 0, 1, force, 0, 0, 1},
		{1, acquire, 1, 0, 9, acquire, 2, 2, 9, acquire, 3, 3, 9, acquire, 3, 130, 9, acquire, 3, 4, 9, acquire, 3, 5, 9,
			release, 1, 1, 0, acquire, 3, 6, 9}, // full
	} {
		f.Add(seed)
	}
	f.Fuzz(operations)
}

// Random operations on few waiters, holders and stamps, so that all of them meet. There are equal
// stamps, waiters that come again with another stamp, leases that end by themselves, unreachable
// waiters, and a node that is out.
func TestServeAgainstANaiveNode(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	for range 200 {
		input := make([]byte, 1+4*400)
		random.Read(input[1:])
		operations(t, input)
	}
}

// operations carries out four bytes of the input after the other.
func operations(t *testing.T, input []byte) {
	const acquire, extend, confirm, release, force, later = 0, 1, 2, 3, 4, 5
	if len(input) == 0 {
		return
	}
	gone := map[string]bool{}
	e, l, now := Entry{}, &testQueue{gone: gone}, time.Duration(0)
	var n *naive
	most := 300
	if input[0]%8 == 1 {
		most = 10 // looking through a full queue takes time
		for i := range MaxQueue - 3 {
			l.Waiters = append(l.Waiters, node.Place{Waiter: fmt.Sprintf("x%05d", i), Stamp: 2})
		}
	} else {
		n = &naive{waiters: map[string]int64{}, gone: gone}
	}
	var log []string
	for rest := input[1:]; len(rest) >= 4 && len(log) < most; rest = rest[4:] {
		holder := node.Holder(fmt.Sprint("h", rest[1]%4))
		if rest[1]%4 == 0 {
			holder = "" // in a release only
		}
		p := node.Place{Stamp: int64(rest[2] >> 6), Waiter: []string{"", "a", "b", "c", "d", "e", "f", "x00001"}[rest[2]%8]}
		ttl := time.Duration(1+int(rest[3])) * 10 * time.Millisecond
		token := fuzzToken(rest[3])
		before, waiting := e, slices.Clone(l.Waiters)
		leased := before.Leased(now)
		var reply, want node.Answer
		var notify, wantNotify string
		compare := n != nil
		kind := rest[0] % 8
		switch {
		case holder == "" && kind < 3:
			continue // engines refuse it
		case kind == acquire:
			p.Stamp++
			token = min(token, MaxProposal) // engines refuse more
			reply, notify = Serve(&e, l, now, node.Request{Op: node.Acquire, Holder: holder, TTL: ttl, Token: token, Place: p})
			if n != nil {
				want, wantNotify = n.acquire(now, holder, ttl, token, p)
			}
			if reply.Status == node.Granted &&
				(leased && before.Holder != node.Reserved(p.Waiter) || reply.Register <= before.Register ||
					reply.Register < token) {
				t.Fatalf("%+v granted on %+v at %v", reply, before, now)
			}
			if reply.Status == node.Held && p.Waiter != "" && l.ahead(p.Waiter) == len(l.Waiters) && len(l.Waiters) < MaxQueue {
				t.Fatalf("%q was refused, and is not in the queue", p.Waiter)
			}
		case kind == extend:
			token = min(token, fence.MaxToken)
			reply, notify = Serve(&e, l, now, node.Request{Op: node.Extend, Holder: holder, TTL: ttl, Token: token, Place: p})
			own := leased && before.Holder == holder
			compare = false
			origin := before.Register
			if own {
				origin = before.Origin
			}
			if granted := !before.Out && (own || !leased ||
				before.Holder.Reserves()); granted != (reply.Status == node.Granted) ||
				granted && (reply.Register != origin || e.Origin != origin || e.Register != max(before.Register, token)) {
				t.Fatalf("extend: %+v on %+v at %v", reply, before, now)
			}
			if n != nil && reply.Status == node.Granted {
				n.end(now)
				n.holder, n.until, n.register, n.reservedFor = holder, now+ttl, e.Register, ""
			}
		case kind == confirm:
			token = min(token, fence.MaxToken)
			reply, notify = Serve(&e, l, now, node.Request{Op: node.Confirm, Holder: holder, Token: token, Place: p})
			own := leased && before.Holder == holder
			compare = false
			if granted := !before.Out && own && before.Register <= token; granted != (reply.Status == node.Granted) ||
				granted && e.Register != token {
				t.Fatalf("confirm: %+v on %+v at %v", reply, before, now)
			}
			if n != nil && reply.Status == node.Granted {
				n.register = token
			}
		case kind == release:
			if rest[3] >= 128 {
				p.Stamp++
			} else {
				p.Stamp = 0
			}
			reply, notify = Serve(&e, l, now, node.Request{Op: node.Release, Holder: holder, Place: p})
			if n != nil {
				want, wantNotify = n.release(now, holder, p)
			}
		case kind == force:
			token = min(token, fence.MaxToken)
			reply, notify = Serve(&e, l, now, node.Request{Op: node.ForceRelease, Token: token})
			if n != nil {
				want, wantNotify = n.forceRelease(now, token)
			}
			if reply.Status == node.Granted && (e.Register <= before.Register || e.Register < token) {
				t.Fatalf("force release: %+v on %+v", reply, before)
			}
		case kind == later:
			now += time.Duration(rest[1]) * 10 * time.Millisecond
			continue
		default:
			if w := p.Waiter; w != "" {
				gone[w] = rest[1]%2 == 0 && !gone[w]
			}
			e.Out = rest[1] == 7
			if n != nil {
				n.out = e.Out
			}
			continue
		}
		log = append(log, fmt.Sprintf("%v: operation %d by %q for %+v, %v, %d: %+v, notify %q", now, kind, string(holder), p,
			ttl, token, reply, notify))
		fail := func(why string) {
			t.Fatalf("%s: %+v before, %+v after. The last operations:\n%s", why, before, e,
				strings.Join(log[max(0, len(log)-20):], "\n"))
		}

		if e.Register < before.Register {
			fail("the register decreased")
		}
		if leased && e.Holder != before.Holder && kind != force && !(kind == release && before.Holder == holder) &&
			before.Holder != node.Reserved(p.Waiter) && !(kind == extend && before.Holder.Reserves()) {
			fail("a lease was taken from its holder")
		}
		if leased && kind != force && before.Holder != holder && before.Holder != node.Reserved(p.Waiter) &&
			!(kind == extend && before.Holder.Reserves()) && e.Expires != before.Expires {
			fail("a lease was changed by somebody else")
		}
		if e.Leased(now) && e.Expires > now+max(ttl, ReservationTTL) && e.Expires != before.Expires {
			fail("a lease that is too long")
		}
		if before.Out && (reply.Status == node.Granted && kind != release || e.Register != before.Register) {
			fail("promised while out")
		}
		if len(l.Waiters) > MaxQueue || len(l.Waiters) > len(waiting)+1 {
			fail(fmt.Sprintf("%d in the queue, after %d", len(l.Waiters), len(waiting)))
		}
		for i := 1; i < len(l.Waiters); i++ {
			if a, b := l.Waiters[i-1], l.Waiters[i]; a.Stamp > b.Stamp || a.Stamp == b.Stamp && a.Waiter >= b.Waiter {
				fail(fmt.Sprintf("out of order, or twice in the queue: %v, %v", a, b))
			}
		}
		seen := map[string]bool{}
		for _, in := range l.Waiters {
			if in.Waiter == "" || seen[in.Waiter] {
				fail(fmt.Sprintf("%q is twice in the queue, or nobody", in.Waiter))
			}
			seen[in.Waiter] = true
		}
		if notify != "" && (e.Holder != node.Reserved(notify) || e.Expires != now+ReservationTTL || gone[notify] ||
			notify == p.Waiter && kind != force || leasedBy(before, now, holder, p) && kind == acquire) {
			fail(fmt.Sprintf("notify %q", notify))
		}
		if n == nil {
			continue
		}
		n.end(now)
		if want.Status == node.Held {
			want.HeldBy, want.Remaining, want.Ahead, want.Clock = n.label(), n.until-now, n.ahead(p.Waiter), now
			if want.Holder = n.holder.Fingerprint(); n.reservedFor != "" {
				want.Holder = node.Reserved(n.reservedFor).Fingerprint()
			}
		}
		same := e.Register == n.register && e.Leased(now) == !n.free() && len(l.Waiters) == len(n.waiters) &&
			(!compare || reply == want && notify == wantNotify)
		if e.Leased(now) {
			same = same && e.Expires == n.until && e.Holder.Reserves() == (n.reservedFor != "") &&
				(e.Holder == n.holder || e.Holder == node.Reserved(n.reservedFor))
		}
		for _, w := range []string{"", "a", "b", "c", "d", "e", "f", "x00001"} {
			same = same && l.ahead(w) == n.ahead(w)
		}
		if !same {
			fail(fmt.Sprintf("the naive one says %+v, notify %q, and is %+v, the queue %v", want, wantNotify, *n, l.Waiters))
		}
	}
}

// leasedBy reports whether a client other than holder, or the waiter that asks, has the lease.
func leasedBy(e Entry, now time.Duration, holder node.Holder, p node.Place) bool {
	return e.Leased(now) && e.Holder != holder && e.Holder != node.Reserved(p.Waiter)
}

// fuzzToken makes a token of a byte: small ones that meet, and the bounds.
func fuzzToken(b byte) fence.Token {
	if b >= 252 {
		return []fence.Token{MaxProposal - 1, MaxProposal, fence.MaxToken, math.MaxUint64}[b-252]
	}
	return fence.Token(b % 64)
}

// FuzzChecks: what an engine lets through is what the rules can be applied to.
func FuzzChecks(f *testing.F) {
	const client = "0123456789abcdef0123456789abcdef"
	for _, s := range []string{
		"", ":", "1", ":1", " ", client, client + ":", client + ":1", client + ":a", client + ":1\n", client + "::1",
		client + ":1:2", client + ":1:", client + ":a:1", client + ":1:é\u0085", client + ":1:\xff",
		client + ":1:" + strings.Repeat("x", 128), client + ":1:" + strings.Repeat("x", 129),
		client + ":-1", client + ":+1", client + ": 1", client + ":١", client[1:] + ":1", client + "0:1",
		strings.ToUpper(client) + ":1",
		"g" + client[1:] + ":1", client[:31] + "/:1", client[:31] + "\x00:1", client[:30] + "..:1",
		strings.Repeat("é", 16) + ":1",
		client + ":" + strings.Repeat("0", 19), client + ":" + strings.Repeat("0", 20),
		client + ":" + strings.Repeat("9", 19),
	} {
		for _, n := range []int64{
			0, 1, -1, 1 << 52, 1<<52 + 1, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64,
			1e6 - 1, 1e6, 1_999_000, int64(time.Hour), int64(maxTTL), int64(maxTTL) + 1,
		} {
			f.Add(s, n)
		}
	}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		good, labelled := s == "", regexp.MustCompile(`^[0-9a-f]{32}:[0-9]{1,19}(:.*)?$`).FindStringSubmatch(s)
		if labelled != nil {
			label := strings.TrimPrefix(labelled[1], ":")
			good = utf8.ValidString(s) && len(label) <= 128 && !strings.ContainsFunc(label, unicode.IsControl)
		}
		if err := CheckPlace(node.Place{Waiter: s, Stamp: n}); (err == nil) != (good && n >= 0 && n <= 1<<53) {
			t.Errorf("place %q, %d: %v", s, n, err)
		}
		for _, op := range []node.Op{node.Acquire, node.Extend} {
			var e Entry
			Serve(&e, nil, 0, node.Request{Op: op, Holder: "h", TTL: time.Duration(n)})
			ttl, err := e.Expires, checkTTL(time.Duration(n))
			if (err == nil) != (n >= 1e6 && n <= int64(maxTTL)) ||
				err == nil && (int64(ttl) != n/1e6*1e6 || ttl+time.Duration(math.MaxInt64/2) < 0) {
				t.Errorf("%v with TTL %d: %v, %v", op, n, ttl, err)
			}
		}
		token := fence.Token(n)
		if (checkToken(token) == nil) != (token == 0 || token.Valid()) || (checkProposal(token) == nil) != (token <= 1<<52) ||
			(checkHolder(node.Request{Holder: node.Holder(s)}) == nil) != (s != "") {
			t.Errorf("%d, %q: %v, %v, %v", token, s, checkToken(token), checkProposal(token),
				checkHolder(node.Request{Holder: node.Holder(s)}))
		}
	})
}
