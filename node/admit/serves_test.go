package admit

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// An engine may say with each request which server it leads to.
func TestServesAllocatesOnce(t *testing.T) {
	self := &named{name: "a"}
	a := New(self, nil, 0)
	if err := a.Join(node.Group{Nodes: []node.Node{self}, MaxTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	server := "run"
	if n := testing.AllocsPerRun(100, func() {
		if err := a.Serves(server); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for each request", n)
	}
}

// named is a node that is only called something.
type named struct {
	node.Node
	name string
}

func (n *named) String() string { return n.name }
func (n *named) Engine() any    { return n }
