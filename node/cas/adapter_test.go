package cas_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

// The adapter of the example passes the suite, and the scenes of a store that loses its memory.

func TestExampleConformance(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		db := newDatabase()
		return nodetest.Harness{Node: opened(t, db), Other: opened(t, db), Wait: time.Sleep}
	})
}

func TestExampleAdmission(t *testing.T) {
	nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
		db := newDatabase()
		return nodetest.Admission{Open: func() node.Node { return Open(db, "database") }, Wipe: db.wipe, Wait: time.Sleep}
	})
}

// opened returns a node that is joined to a new group of its own, as fenlock.New would.
func opened(t *testing.T, db *database) node.Node {
	t.Helper()
	n := Open(db, "database")
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour, New: true}); err != nil {
		t.Fatal(err)
	}
	return n
}

// wipe has the store lose its memory: it is made anew.
func (db *database) wipe() {
	made := newDatabase()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.created, db.version, db.values = made.created, made.version, made.values
}
