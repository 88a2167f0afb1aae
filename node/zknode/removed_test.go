package zknode

import (
	"testing"

	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// If a person removes what has to be there, the error says so, and not that others were first.
func TestRemovedByHand(t *testing.T) {
	for _, what := range []string{"mark", "sessions", "stripes"} {
		url := freshURL()
		n, late := open(t, url), open(t, url)
		ready(t, n)
		link, err := n.session.Link(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		path := n.root + "/" + what
		if what == "mark" {
			path = n.paths.mark(n.vote.Load().memory)
		}
		remove(t, link, path)
		why := "a person has removed " + path
		if what == "mark" {
			why = "the store says that it was admitted, and that it was not"
		}
		if what != "sessions" { // its session has a znode by now
			refuses(t, n, true, why)
		}
		refuses(t, late, true, why)
	}
}

// remove removes a znode and all below it.
func remove(t *testing.T, link *session.Link, path string) {
	t.Helper()
	replies, err := link.Do(t.Context(), wire.Children{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range replies[0].Children {
		remove(t, link, path+"/"+part)
	}
	if replies, err = link.Do(t.Context(), wire.Delete{Path: path, Version: wire.Any}); err != nil ||
		replies[0].Err != wire.OK {
		t.Fatalf("%s: %+v, %v", path, replies, err)
	}
}
