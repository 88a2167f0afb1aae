package rebuild_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
)

// regs is one node's answer: its registers' owner, admitted if in upper case,
// and the register of stripe 7. "" is no answer.
func regs(server string, token fence.Token) *node.Registers {
	if server == "" {
		return nil
	}
	return &node.Registers{
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
		var answers []*node.Registers
		var largest fence.Token
		for i, letter := range c.others {
			server, token := string(letter), fence.Token(100+i)
			switch server {
			case "-":
				answers = append(answers, nil)
				continue
			case "=":
				answers = append(answers, &node.Registers{Server: "own", Admitted: true, Tokens: map[int]fence.Token{7: 999}})
				continue
			}
			if !strings.Contains(c.others[:i], server) {
				largest = max(largest, token)
			}
			answers = append(answers, regs(server, token))
		}
		r, err := rebuild.Merge(c.n, rebuild.Self{Server: "own", Memory: "own", Untouched: true}, answers)
		if (err != nil) != c.out || r.Weak != c.weak {
			t.Errorf("%s: weak %v, error %v; want weak %v, out %v", c.name, r.Weak, err, c.weak, c.out)
		}
		if r.Tokens[7] != largest || r.MaxTTL != time.Duration(largest)*time.Millisecond {
			t.Errorf("%s: register %d, longest lease %v; want the maximum, %d", c.name, r.Tokens[7], r.MaxTTL, largest)
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
				var answers []*node.Registers
				for i := 1; i < n; i++ { // node 0 is to be admitted
					if reached>>i&1 == 0 {
						answers = append(answers, nil)
						continue
					}
					r := &node.Registers{Server: string(rune('a' + i)), Admitted: true, Tokens: map[int]fence.Token{}}
					if fixed>>i&1 == 1 {
						r.Tokens[7] = 42
					}
					answers = append(answers, r)
				}
				r, err := rebuild.Merge(n, rebuild.Self{Server: "own", Memory: "own", Untouched: true}, answers)
				if err == nil && !r.Weak && r.Tokens[7] != 42 {
					t.Fatalf("%d nodes, fixed at %b, reached %b: the token is not found", n, fixed, reached)
				}
				if err == nil && r.Weak && n > 1 {
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

// When a majority has lost its memory, the servers come back one after the other, and one may never
// come back. The first is admitted without the registers of a majority; the others must not wait
// for the dead server then.
func TestMergeAfterAMajorityWasLost(t *testing.T) {
	admitted := func(server string, empty ...string) *node.Registers {
		return &node.Registers{Server: server, Memory: server, Admitted: true, Empty: empty,
			Tokens: map[int]fence.Token{7: 42}}
	}
	lost := func(server string) *node.Registers { return &node.Registers{Server: server, Memory: server} }
	me := rebuild.Self{Server: "me", Memory: "me", Untouched: true}
	for _, c := range []struct {
		name   string
		n      int
		self   rebuild.Self
		others []*node.Registers
		weak   bool
		out    bool
	}{
		{"the first, one dead", 3, me, []*node.Registers{lost("a"), nil}, true, false},
		{"the second, one dead", 3, me, []*node.Registers{admitted("a", "a", "me"), nil}, false, false},
		{"the second of five, one dead", 5, me,
			[]*node.Registers{admitted("a", "a", "b", "c", "me"), lost("b"), lost("c"), nil}, false, false},
		{"the second of five, two dead", 5, me, []*node.Registers{admitted("a", "a", "b", "me"), lost("b"), nil, nil}, false,
			false},
		{"three may have tokens that were fixed since", 5, me,
			[]*node.Registers{admitted("a", "a", "b", "me"), lost("restarted since"), nil, nil}, false, true},
		{"not on the list: it was restarted since", 3, me,
			[]*node.Registers{admitted("a", "a", "an earlier memory of mine"), nil}, false, true},
		{"the list is of a server that is not admitted", 3, me,
			[]*node.Registers{{Server: "a", Memory: "a", Empty: []string{"me"}}, nil}, true, false},
		// It was admitted in between, so it may have been one of the nodes of a
		// token.
		{"flushed since", 3, rebuild.Self{Server: "me", Memory: "me"}, []*node.Registers{admitted("a", "a", "me"), nil},
			false, true},
	} {
		r, err := rebuild.Merge(c.n, c.self, c.others)
		if (err != nil) != c.out || r.Weak != c.weak {
			t.Errorf("%s: weak %v, error %v; want weak %v, out %v", c.name, r.Weak, err, c.weak, c.out)
		}
		if err == nil && !slices.Contains(r.Empty, "me") {
			t.Errorf("%s: the list %q lacks the server itself", c.name, r.Empty)
		}
	}
}
