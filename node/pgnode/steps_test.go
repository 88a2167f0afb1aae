package pgnode

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// A database that two nodes of a group lead to has one vote, also where another client had it
// admitted.
func TestDatabaseNamedTwice(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	a, b, third := open(t, u), open(t, strings.Replace(u, "127.0.0.1", "localhost", 1)), open(t, newSchema(t, server))
	for _, n := range []*Node{a, b, third} {
		if err := n.Join(node.Group{Nodes: []node.Node{a, b, third, memnode.New("c")}, MaxTTL: shortTTL}); err != nil {
			t.Fatal(err)
		}
	}
	admitted(t, a)
	admitted(t, third)
	r := request("a", 0)
	r.TTL = shortTTL
	want(t, node.Granted)(a.Do(t.Context(), as(node.Acquire, r)))
	if answer, err := b.Do(t.Context(), as(node.Extend, r)); !errors.Is(err, node.ErrMisconfigured) ||
		errors.Is(err, node.ErrNotSent) || !strings.Contains(err.Error(), a.String()) {
		t.Errorf("a second vote: %+v, %v", answer, err)
	}
	want(t, node.Granted)(third.Do(t.Context(), as(node.Acquire, r))) // another schema, though on the same server
}

// A client is paused in mid-admission while another database has the name of the one that it looked
// at.
func TestRegistersOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	one, two := c.database(), c.database()
	n := short(t, c.url(one))
	steps := admission{n}
	f, err := steps.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	aside := c.rename(two, one)
	for range maxConnections { // those that were ended
		if _, err = n.Registers(t.Context()); err == nil {
			break
		}
	}
	if err := steps.Raise(t.Context(), f, map[int]fence.Token{7: 1000}); err == nil {
		t.Error("the registers of another database were raised")
	}
	c.rename(aside, one)
	for range maxConnections {
		if _, err = n.Registers(t.Context()); err == nil {
			break
		}
	}
	if err := steps.Raise(t.Context(), f, map[int]fence.Token{7: 1000}); err != nil {
		t.Fatal(err)
	}
	if done, err := steps.Mark(t.Context(), f, n.admission.Terms(), nil); err != nil || !done {
		t.Fatal(done, err)
	}
	if r, err := n.Registers(t.Context()); err != nil || !r.Admitted || r.Tokens[7] != 1000 {
		t.Errorf("%+v, %v", r, err)
	}
}
