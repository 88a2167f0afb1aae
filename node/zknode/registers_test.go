package zknode

import (
	"maps"
	"testing"

	"github.com/fenlock/fenlock/fence"
)

// Registers are raised too where stripes have long queues.
func TestRaiseLongQueues(t *testing.T) {
	t.Parallel()
	n := voting(t, freshURL())
	tokens := make(map[int]fence.Token)
	for stripe := range 4 {
		l, err := storeOf(n).Load(t.Context(), stripe)
		if err != nil {
			t.Fatal(err)
		}
		r := l.Record
		r.Queues = make([]byte, 400<<10) // as of 10,000 waiters
		if _, err := storeOf(n).Save(t.Context(), stripe, r, l); err != nil {
			t.Fatal(err)
		}
		tokens[stripe] = 1000
	}
	link := linkOf(t, n)
	if err := n.raise(t.Context(), link, n.paths.mark(n.vote.Load().memory), tokens); err != nil {
		t.Fatal(err)
	}
	r, err := n.Registers(t.Context())
	maps.DeleteFunc(r.Tokens, func(stripe int, _ fence.Token) bool { return tokens[stripe] == 0 })
	if err != nil || !maps.Equal(r.Tokens, tokens) {
		t.Errorf("raised to %v, %v", r.Tokens, err)
	}
}
