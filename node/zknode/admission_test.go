package zknode

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
	"github.com/fenlock/fenlock/nodetest"
)

// What the suite knows of admission, on a real server. It cannot put a backup back: a client that
// has not seen what is missing does not notice. TestLostMemory and what follows it do so.
func TestAdmission(t *testing.T) {
	server := testserver.StartZooKeeper(t)
	wipes := 0
	nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
		url := rootOn(server)
		return nodetest.Admission{Wait: time.Sleep,
			Open: func() node.Node {
				n, err := Open(url)
				if err != nil {
					t.Fatal(err)
				}
				return n
			},
			Wipe: func() { // both ways
				if wipes++; wipes%4 != 1 {
					removeRoot(t, url)
					return
				}
				server.Kill()
				server.Wipe()
				if err := server.Begin(); err != nil {
					t.Fatal(err)
				}
			}}
	})
}

// removeRoot does what a person does who wants to begin anew, while clients may be at work.
func removeRoot(t *testing.T, url string) {
	t.Helper()
	n, err := Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	link := linkOf(t, n)
	for range 100 {
		removeAll(t, link, n.root)
		if replies, err := link.Do(t.Context(), wire.Get{Path: n.root}); err != nil {
			t.Fatal(err)
		} else if replies[0].Err == wire.NoNode {
			return
		}
	}
	t.Fatalf("%s stays", n.root)
}

func removeAll(t *testing.T, link *session.Link, path string) {
	replies, err := link.Do(t.Context(), wire.Children{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range replies[0].Children {
		removeAll(t, link, path+"/"+part)
	}
	if _, err := link.Do(t.Context(), wire.Delete{Path: path, Version: wire.Any}); err != nil {
		t.Fatal(err)
	}
}
