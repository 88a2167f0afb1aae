package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// However a batch is put together, what is about one name stays in its order. Each request is sent
// once, and is given the reply to it. Scripts of several requests know no shared names.
func TestBatchesKeepTheOrderOfEachName(t *testing.T) {
	keys, err := command.NewKeys("p:")
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var m memory
	grouped := 0
	for round := range 2000 {
		m.clear()
		batch := make([]started, 1+random.IntN(maxBatch))
		names := 1 + random.IntN(100)
		inOrder := map[string][]string{}
		for i := range batch {
			r := node.Request{Op: []node.Op{node.Acquire, node.Acquire, node.Release, node.Release, node.Extend,
				node.Confirm}[random.IntN(6)],
				Name: fmt.Sprint(random.IntN(names)), Holder: node.Holder(fmt.Sprint("holder ", i)), Shared: random.IntN(9) == 0,
				Next: fence.Token(random.IntN(2))}
			if random.IntN(9) == 0 {
				r.Place = node.Place{Waiter: "w"}
			}
			batch[i].request = r
			inOrder[r.Name] = append(inOrder[r.Name], string(r.Holder))
		}
		m.compose(batch, keys, []string{"", "id"}[round%2])
		got, sent := map[string][]string{}, 0
		for c, words := range m.commands {
			// The holders are in the order of the names' keys.
			var holders, about []string
			for _, word := range words {
				if len(word) > 7 && word[:7] == "holder " {
					holders = append(holders, word)
				}
				if len(word) > 2 && word[:2] == "p:" {
					about = append(about, word[2:])
				}
			}
			if len(holders) != m.sizes[c] || len(about) != len(holders) {
				t.Fatalf("seed %d, round %d: %q is of %d requests", seed, round, words, m.sizes[c])
			}
			for _, place := range m.order[sent : sent+m.sizes[c]] {
				if r := batch[place].request; m.sizes[c] > 1 && r.Shared && r.Op != node.Release {
					t.Fatalf("seed %d, round %d: %+v shares its name and is one of a group", seed, round, r)
				}
			}
			sent += m.sizes[c]
			var replies []resp.Reply
			for i, holder := range holders {
				got[about[i]] = append(got[about[i]], holder)
				replies = append(replies, resp.Text(holder))
			}
			if len(replies) == 1 {
				m.replies = append(m.replies, replies[0])
			} else {
				grouped += len(replies)
				m.replies = append(m.replies, resp.List(replies))
			}
		}
		for name, want := range inOrder {
			if !slices.Equal(got[name], want) {
				t.Fatalf("seed %d, round %d: %q was sent as %q; want %q", seed, round, name, got[name], want)
			}
		}
		for i, reply := range m.split(len(batch)) {
			if text, err := reply.ToString(); text != string(batch[i].request.Holder) {
				t.Fatalf("seed %d, round %d: number %d has the reply %q, %v", seed, round, i, text, err)
			}
		}
	}
	if grouped < 10_000 {
		t.Errorf("%d requests were sent with others", grouped)
	}
}

// One reply instead of a list is one to each; what cannot be, grants nothing.
func TestRepliesToGroups(t *testing.T) {
	for _, c := range []struct {
		reply resp.Reply
		text  string
	}{
		{resp.Text("rejoining"), "rejoining"},
		{resp.Failure(resp.Error("NOSCRIPT x")), ""},
		{resp.Number(1), ""},
		{resp.Null(), ""},
		{resp.List([]resp.Reply{resp.Number(1), resp.Number(2)}), ""},
	} {
		all := command.AppendGroup(nil, c.reply, 3)
		if len(all) != 3 {
			t.Fatalf("%+v: %+v", c.reply, all)
		}
		for _, r := range all {
			if text, _ := r.ToString(); text != c.text || c.text == "" && r.Err() == nil {
				t.Errorf("%+v: %+v", c.reply, r)
			}
		}
	}
}
