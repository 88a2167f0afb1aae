package zknode

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// An extension may be under way when the TTL ends, and be refused then. It must not leave the lease
// to the session, which lasts as long as the process.
func TestExtensionRefusedAfterTheEnd(t *testing.T) {
	n := open(t, freshURL())
	ready(t, n)
	r := lasting(request("a", "me", 0), 100*time.Millisecond)
	link, err := n.session.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	extension := n.kept.sending(as(node.Extend, r), link.ID, true)
	time.Sleep(300 * time.Millisecond)
	extension.undone()
	for range 500 {
		l, err := n.look(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		n.kept.mu.Lock()
		kept := len(n.kept.leases)
		n.kept.mu.Unlock()
		if !l.leaseThere && kept == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the lease stays")
}
