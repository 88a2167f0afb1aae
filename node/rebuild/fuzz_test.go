package rebuild_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
)

// FuzzMerge merges whatever the other nodes could answer. Several lead to one server, the own
// server is among them, lists of empty memories contradict each other. The result is the maximum of
// what the servers said, neither less nor more, and it is strong only if enough of them count.
func FuzzMerge(f *testing.F) {
	for _, seed := range [][]byte{
		{},
		{0, 0},
		{2, 1},                       // no node answers
		{2, 1, 255, 0, 0, 255, 0, 0}, // all are silent
		{2, 1, 1 | admittedBit, 7, 0, 2 | admittedBit, 9, 0},
		{2, 1, 1 | admittedBit, 7, 0, 1 | admittedBit, 9, 0}, // one server twice
		{2, 1, 0 | admittedBit, 7, 0, 2 | admittedBit, 9, 0}, // the own one
		{2, 1, 1, 7, 0, 255, 0, 0},                           // weak
		{2, 1, 1 | admittedBit, 7, 1, 255, 0, 0},             // listed as empty
		// but touched since
		{2, 0, 1 | admittedBit, 7, 1, 255, 0, 0},
		// the second of five
		{4, 1, 1 | admittedBit, 7, 15, 2, 8, 0, 3, 9, 0, 255, 0, 0},
		{14, 1, 1 | admittedBit, 255, 255, 2 | admittedBit, 254, 255, 3 | admittedBit, 253, 255, 4, 0, 0}, // fifteen
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) < 2 {
			return
		}
		n, quorum := 1+int(input[0])%15, (1+int(input[0])%15)/2+1
		self := rebuild.Self{Server: "s0", Memory: "m0", Untouched: input[1]&1 != 0}
		var answers []*node.Registers
		for rest := input[2:]; len(rest) >= 3 && len(answers) < 2*n; rest = rest[3:] {
			answers = append(answers, answerOf(rest[0], rest[1], rest[2]))
		}
		given := fmt.Sprint(words(answers))
		r, err := rebuild.Merge(n, self, answers)
		if fmt.Sprint(words(answers)) != given {
			t.Fatalf("the answers %s were changed", given)
		}

		// Counted again, server by server.
		servers := map[string]*node.Registers{}
		silent := 0
		for _, a := range answers {
			if a == nil {
				silent++
			} else if _, again := servers[a.Server]; !again && a.Server != "s0" {
				servers[a.Server] = a
			}
		}
		var longest time.Duration
		largest := map[int]fence.Token{}
		admitted, unlisted := 0, 0
		var empty, listed []string
		for _, a := range servers {
			longest = max(longest, a.MaxTTL)
			for stripe, token := range a.Tokens {
				largest[stripe] = max(largest[stripe], token)
			}
			if a.Admitted {
				admitted++
				listed = append(listed, a.Empty...)
			} else {
				empty = append(empty, a.Memory)
			}
		}
		for _, memory := range empty {
			if !slices.Contains(listed, memory) {
				unlisted++
			}
		}
		fail := func(why string) {
			t.Fatalf("%s: %d nodes, self %+v, answers %s: %+v, %v", why, n, self, given, r, err)
		}
		for stripe, token := range largest {
			if r.Tokens[stripe] != token {
				fail("not the maximum")
			}
		}
		if len(r.Tokens) != len(largest) || r.MaxTTL != longest {
			fail("made up")
		}
		// Any n-q+1 others share one with any q-1 of them.
		enough := admitted >= n-quorum+1
		known := self.Untouched && slices.Contains(listed, "m0") && silent+unlisted < quorum
		impossible := admitted+silent < n-quorum+1 && 1+admitted+len(empty) >= quorum
		if (err == nil) != (enough || known || impossible) {
			fail("admitted, or not, against the rule")
		}
		if r.Weak != (err == nil && !enough && !known) {
			fail("weak, or not, against the rule")
		}
		for _, memory := range append(empty, "m0") {
			if r.Weak && !slices.Contains(r.Empty, memory) {
				fail("the list of the empty lacks " + memory)
			}
		}
		if err == nil && !enough && known {
			for _, memory := range listed {
				if !slices.Contains(r.Empty, memory) {
					fail("the list that was passed on lacks " + memory)
				}
			}
		}
	})
}

const admittedBit = 128

// answerOf makes an answer of three bytes: whose it is, its numbers, and which
// memories it lists as empty.
func answerOf(who, number, lists byte) *node.Registers {
	if who == 255 {
		return nil
	}
	r := &node.Registers{
		Server: fmt.Sprint("s", who%16), Memory: fmt.Sprint("m", who%64), Admitted: who&admittedBit != 0,
		MaxTTL: time.Duration(number) * time.Second,
	}
	if number%8 != 0 {
		r.Tokens = map[int]fence.Token{int(number % 4): fence.Token(number), 4095: fence.MaxToken - fence.Token(number)}
	}
	for i := range 8 {
		if lists&(1<<i) != 0 {
			r.Empty = append(r.Empty, fmt.Sprint("m", i))
		}
	}
	return r
}

func words(answers []*node.Registers) (all []string) {
	for _, a := range answers {
		if a == nil {
			all = append(all, "silent")
		} else {
			all = append(all, fmt.Sprintf("%+v", *a))
		}
	}
	return all
}
