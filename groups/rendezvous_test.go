package groups_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/node/memnode"
)

// spreading returns Groups of one node each, that only tell where a name is.
func spreading(t *testing.T, ids ...string) *groups.Groups {
	t.Helper()
	var c groups.Config
	for _, id := range ids {
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New(id)}})
		if err != nil {
			t.Fatal(err)
		}
		c.Groups = append(c.Groups, groups.Group{ID: id, Locker: l})
	}
	g, err := groups.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func idOf(g *groups.Groups, name string) string {
	group, _ := g.Of(name)
	return group.ID
}

// Where a name is may never change: two processes of which one has another version would both
// hold it. If this test fails, the code is wrong, whatever the reason.
func TestGroupsOfNamesAreFixed(t *testing.T) {
	for _, test := range []struct{ ids, want string }{
		{"a b", "baabbaaaaaaabbbbbbababaaaabbaaaaababbaab"},
		{"a b c", "bcacccaccccabbbcbccbaccaacbcaacaabaccacc"},
		{"c b a", "bcacccaccccabbbcbccbaccaacbcaacaabaccacc"},
		{"group-1 group-2 group-3 group-4 group-5", "1432223441344312343151452443251341124442"},
	} {
		g := spreading(t, strings.Fields(test.ids)...)
		got := ""
		for i := range 40 {
			id := idOf(g, fmt.Sprintf("orders/%d", i))
			got += id[len(id)-1:]
		}
		if got != test.want {
			t.Errorf("groups %s: %s, want %s", test.ids, got, test.want)
		}
	}
	g := spreading(t, "a", "b", "c", "d")
	for name, want := range map[string]string{
		"": "b", "ä": "c", "orders/42": "a", "{orders}/42": "b", strings.Repeat("x", 512): "b",
	} {
		if got := idOf(g, name); got != want {
			t.Errorf("%.20q is on %q, want %q", name, got, want)
		}
	}
}

// As in a Redis Cluster: https://valkey.io/topics/cluster-spec, "Hash tags".
func TestNamesWithATagAreTogether(t *testing.T) {
	g := spreading(t, "a", "b", "c", "d", "e", "f", "g", "h")
	same := func(a, b string) bool {
		for i := range 50 { // by chance once or twice
			if idOf(g, strings.ReplaceAll(a, "N", fmt.Sprint(i))) != idOf(g, strings.ReplaceAll(b, "N", fmt.Sprint(i))) {
				return false
			}
		}
		return true
	}
	for _, pair := range [][2]string{{"{user/N}/orders", "{user/N}/carts"}, {"{N}", "N"}, {"a{N}b", "N"},
		{"x{{N}}y", "{N"}, {"{N}{other}", "N"}} {
		if !same(pair[0], pair[1]) {
			t.Errorf("%q and %q are not together", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{{"N/a", "N/b"}, {"{}N/a", "{}N/b"}, {"{N/a", "{N/b"}, {"}N/a{", "}N/b{"}} {
		if same(pair[0], pair[1]) {
			t.Errorf("%q and %q are always together, though they have no tag", pair[0], pair[1])
		}
	}
}

// Each group has its share, whatever the names and ids look like.
func TestNamesAreSpreadEvenly(t *testing.T) {
	const names = 100_000
	for _, ids := range []string{"a b", "a b c", "g1 g2 g3 g4 g5",
		"10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8"} {
		for _, format := range []string{"%d", "orders/%d", "%08d/stock", "tenant-{%d}-x", "%x:lock"} {
			all := strings.Fields(ids)
			g := spreading(t, all...)
			counts := map[string]int{}
			for i := range names {
				counts[idOf(g, fmt.Sprintf(format, i))]++
			}
			fair := float64(names) / float64(len(all))
			for _, id := range all {
				// Chance alone would make it one percent in eight groups, and four once in thousands of times.
				if n := float64(counts[id]); n < fair*0.96 || n > fair*1.04 {
					t.Errorf("groups %s, names %s: %q has %.0f, its share is %.0f", ids, format, id, n, fair)
				}
			}
		}
	}
}

// A group more takes 1/(n+1) of the names, and nothing else moves. Read the other way round, that
// is what becomes of the names of a group that goes.
func TestAGroupMoreTakesItsShareOnly(t *testing.T) {
	const names = 100_000
	ids := []string{"a", "b", "c", "d", "e", "f"}
	for n := 1; n < len(ids); n++ {
		before, after := spreading(t, ids[:n]...), spreading(t, append([]string{"new"}, ids[:n]...)...)
		moved := 0
		for i := range names {
			name := fmt.Sprintf("orders/%d", i)
			switch was, is := idOf(before, name), idOf(after, name); {
			case was == is:
			case is != "new":
				t.Fatalf("%q moves from %q to %q", name, was, is)
			default:
				moved++
			}
		}
		if share := float64(names) / float64(n+1); float64(moved) < share*0.97 || float64(moved) > share*1.03 {
			t.Errorf("%d groups and one more: %d of %d names move, its share is %.0f", n, moved, names, share)
		}
	}
}
