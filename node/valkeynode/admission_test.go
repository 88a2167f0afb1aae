package valkeynode

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

func TestDecide(t *testing.T) {
	const maxTTL = 30 * time.Second
	const out = 30*time.Second + 302*time.Millisecond + uptimeSlack // the longest lease, 1 % and 2 ms, rounding of INFO
	const long = time.Hour
	for _, c := range []struct {
		name string
		f    facts
		want verdict
		left time.Duration
	}{
		{"first start, just now", facts{replID: "b"}, waitRun, out},
		{"first start, a second ago", facts{replID: "b", uptime: time.Second}, waitRun, out - time.Second},
		{"first start, a nanosecond short", facts{replID: "b", uptime: out - 1}, waitRun, 1},
		{"first start, long enough ago", facts{replID: "b", uptime: out}, rebuild, 0},
		{"restarted with a file", facts{replID: "b", marked: "a", uptime: time.Second}, waitRun, out - time.Second},
		{"restarted with a file long ago", facts{replID: "b", marked: "a", uptime: long}, rebuild, 0},
		{"longer leases were recorded", facts{replID: "b", marked: "a", maxTTL: time.Minute, uptime: out}, waitRun, time.Minute + time.Second - 30*time.Second + 300*time.Millisecond - uptimeSlack},

		{"the mark is this run's", facts{replID: "b", marked: "b"}, admit, 0},
		{"script cache flushed only", facts{replID: "b", marked: "b", scriptsFlushed: true, uptime: long}, admit, 0},
		{"admitted after a promotion", facts{replID: "b", marked: "b", promoted: true, uptime: long}, admit, 0},

		{"durable before and after", facts{replID: "b", marked: "a", wasDurable: true, aof: true, fsyncAlways: true}, admit, 0},
		{"durable before, fsync every second now", facts{replID: "b", marked: "a", wasDurable: true, aof: true}, waitRun, out},
		{"durable before, no file now", facts{replID: "b", marked: "a", wasDurable: true, fsyncAlways: true}, waitRun, out},
		{"durable only now", facts{replID: "b", marked: "a", aof: true, fsyncAlways: true}, waitRun, out},
		{"durable, but wiped", facts{replID: "b", aof: true, fsyncAlways: true}, waitRun, out},
		{"durable, but promoted", facts{replID: "b", marked: "a", wasDurable: true, aof: true, fsyncAlways: true, promoted: true, uptime: long}, waitNow, 0},

		{"promoted, up for long", facts{replID: "b", marked: "a", promoted: true, uptime: long}, waitNow, 0},
		{"promoted, without data", facts{replID: "b", promoted: true, uptime: long}, waitNow, 0},
		{"flushed", facts{replID: "b", scriptsLoaded: true, uptime: long}, waitNow, 0},
		{"flushed, scripts too", facts{replID: "b", scriptsFlushed: true, uptime: long}, waitNow, 0},
		{"a file was loaded under loaded scripts", facts{replID: "b", marked: "a", wasDurable: true, aof: true, fsyncAlways: true, scriptsLoaded: true}, waitNow, 0},
	} {
		if v, left := decide(c.f, maxTTL); v != c.want || left != c.left {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, v, left, c.want, c.left)
		}
	}
}

// regs is one node's answer: its registers' owner, admitted if in upper case,
// and the register of stripe 7. "" is no answer.
func regs(server string, token fence.Token) *fenlock.Registers {
	if server == "" {
		return nil
	}
	return &fenlock.Registers{
		Server: strings.ToLower(server), Admitted: server == strings.ToUpper(server),
		MaxTTL: time.Duration(token) * time.Millisecond, Tokens: map[int]fence.Token{7: token},
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		others string // in upper case: admitted; "-": no answer; "=": the own server; "A" twice: two nodes, one server
		weak   bool
		out    bool
	}{
		{"one node", 1, "", true, false},

		{"three: two others", 3, "AB", false, false},
		{"three: one other, one silent, which may be admitted", 3, "A-", false, true},
		{"three: one other, one empty", 3, "Ab", true, false},
		{"three: both empty", 3, "ab", true, false},
		{"three: one empty, one silent", 3, "a-", true, false},
		{"three: nobody", 3, "--", false, true},
		{"three: the same other twice", 3, "AA", true, false},
		{"three: an alias of this server", 3, "A=", true, false},

		{"five: three others", 5, "ABC-", false, false},
		{"five: all others", 5, "ABCD", false, false},
		{"five: two others, one silent", 5, "ABc-", false, true},
		{"five: two others, two empty", 5, "ABcd", true, false},
		{"five: one other, one silent", 5, "Abc-", true, false},
		{"five: two silent, two empty", 5, "ab--", true, false},
		{"five: three silent, one empty", 5, "a---", false, true},
		{"five: three silent, one other", 5, "A---", false, true},

		{"two: the other", 2, "A", false, false}, // every majority has it
		{"two: the other empty", 2, "a", true, false},
		{"two: the other silent", 2, "-", false, true},
		{"four: three others", 4, "ABC", false, false},
		{"four: two others, one silent", 4, "AB-", false, false}, // two of three share one with every two
		{"four: one other, one silent", 4, "Ab-", false, true},
	} {
		var answers []*fenlock.Registers
		var largest fence.Token
		for i, letter := range c.others {
			server, token := string(letter), fence.Token(100+i)
			switch server {
			case "-":
				answers = append(answers, nil)
				continue
			case "=":
				answers = append(answers, &fenlock.Registers{Server: "own", Admitted: true, Tokens: map[int]fence.Token{7: 999}})
				continue
			}
			if !strings.Contains(c.others[:i], server) {
				largest = max(largest, token)
			}
			answers = append(answers, regs(server, token))
		}
		r, err := merge(c.n, facts{runID: "own"}, answers)
		if (err != nil) != c.out || r.weak != c.weak {
			t.Errorf("%s: weak %v, error %v; want weak %v, out %v", c.name, r.weak, err, c.weak, c.out)
		}
		if r.tokens[7] != largest || r.maxTTL != time.Duration(largest)*time.Millisecond {
			t.Errorf("%s: register %d, longest lease %v; want the maximum, %d", c.name, r.tokens[7], r.maxTTL, largest)
		}
	}
}

// A token that an attempt finished with is fixed at q nodes, the one that is to
// be admitted perhaps among them. Whatever majority that was, and whichever
// others answer, merge finds it or refuses, unless a majority has lost its memory.
func TestMergeFindsEveryFixedToken(t *testing.T) {
	for n := 1; n <= 7; n++ {
		q := n/2 + 1
		for fixed := range 1 << n {
			if ones(fixed) != q {
				continue
			}
			for reached := range 1 << n {
				var answers []*fenlock.Registers
				for i := 1; i < n; i++ { // node 0 is to be admitted
					if reached>>i&1 == 0 {
						answers = append(answers, nil)
						continue
					}
					r := &fenlock.Registers{Server: string(rune('a' + i)), Admitted: true, Tokens: map[int]fence.Token{}}
					if fixed>>i&1 == 1 {
						r.Tokens[7] = 42
					}
					answers = append(answers, r)
				}
				r, err := merge(n, facts{runID: "own"}, answers)
				if err == nil && !r.weak && r.tokens[7] != 42 {
					t.Fatalf("%d nodes, fixed at %b, reached %b: the token is not found", n, fixed, reached)
				}
				if err == nil && r.weak && n > 1 {
					t.Fatalf("%d nodes, reached %b: weak, although nobody but this node lost its memory", n, reached)
				}
			}
		}
	}
}

func ones(x int) (n int) {
	for ; x > 0; x &= x - 1 {
		n++
	}
	return n
}

// When a majority has lost its memory, the servers come back one after the
// other, and one may never come back. The first is admitted without the
// registers of a majority; the others must not wait for the dead one then.
func TestMergeAfterAMajorityWasLost(t *testing.T) {
	admitted := func(server string, empty ...string) *fenlock.Registers {
		return &fenlock.Registers{Server: server, Memory: server, Admitted: true, Empty: empty, Tokens: map[int]fence.Token{7: 42}}
	}
	lost := func(server string) *fenlock.Registers { return &fenlock.Registers{Server: server, Memory: server} }
	me := facts{runID: "me", replID: "me"}
	for _, c := range []struct {
		name   string
		n      int
		self   facts
		others []*fenlock.Registers
		weak   bool
		out    bool
	}{
		{"the first, one dead", 3, me, []*fenlock.Registers{lost("a"), nil}, true, false},
		{"the second, one dead", 3, me, []*fenlock.Registers{admitted("a", "a", "me"), nil}, false, false},
		{"the second of five, one dead", 5, me, []*fenlock.Registers{admitted("a", "a", "b", "c", "me"), lost("b"), lost("c"), nil}, false, false},
		{"the second of five, two dead", 5, me, []*fenlock.Registers{admitted("a", "a", "b", "me"), lost("b"), nil, nil}, false, false},
		{"three may have tokens that were fixed since", 5, me, []*fenlock.Registers{admitted("a", "a", "b", "me"), lost("restarted since"), nil, nil}, false, true},
		{"not on the list: it was restarted since", 3, me, []*fenlock.Registers{admitted("a", "a", "an earlier memory of mine"), nil}, false, true},
		{"the list is of a server that is not admitted", 3, me, []*fenlock.Registers{{Server: "a", Memory: "a", Empty: []string{"me"}}, nil}, true, false},
		// It was admitted in between, so it may have been one of the nodes of a
		// token.
		{"flushed since", 3, facts{runID: "me", replID: "me", scriptsLoaded: true}, []*fenlock.Registers{admitted("a", "a", "me"), nil}, false, true},
	} {
		r, err := merge(c.n, c.self, c.others)
		if (err != nil) != c.out || r.weak != c.weak {
			t.Errorf("%s: weak %v, error %v; want weak %v, out %v", c.name, r.weak, err, c.weak, c.out)
		}
		if err == nil && !slices.Contains(r.empty, "me") {
			t.Errorf("%s: the list %q lacks the server itself", c.name, r.empty)
		}
	}
}
