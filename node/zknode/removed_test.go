package zknode

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// If a person removes what has to be there, the error says so, and not that others were first.
func TestRemovedByHand(t *testing.T) {
	for _, what := range []string{"mark", "sessions", "stripes"} {
		url := freshURL()
		n, late := open(t, url), open(t, url)
		ready(t, n)
		path := n.root + "/" + what
		if what == "mark" {
			path = n.paths.mark(n.vote.Load().memory)
		}
		removeAll(t, linkOf(t, n), path)
		why := "a person has removed " + path
		if what == "mark" {
			why = "the store says that it was admitted, and that it was not"
		}
		refuses(t, n, true, why)
		refuses(t, late, true, why)
	}
}

// The root is removed while clients run. They are admitted again after the longest lease. A lease
// of after that must be a lease.
func TestRootRemovedWhileRunning(t *testing.T) {
	t.Parallel()
	const maxTTL = 4 * time.Second
	url := freshURL()
	n, other := openFor(t, maxTTL, true, url), openFor(t, maxTTL, true, url)
	ready(t, n)
	removeAll(t, linkOf(t, n), n.root)
	ready(t, other)
	r := lasting(request("a", "me", 0), maxTTL)
	asked := time.Now()
	first := eventually(t, n, as(node.Acquire, r))
	rival := lasting(request("a", "rival", 0), maxTTL)
	a, err := other.Do(t.Context(), as(node.Acquire, rival))
	if err == nil && a.Status == node.Granted && time.Since(asked) < maxTTL {
		t.Errorf("two holders: the lease of %v was over after %v, tokens %d and %d", maxTTL, time.Since(asked),
			first.Register, a.Register)
	}
}
