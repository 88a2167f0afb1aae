package nodetest_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node/memnode"
	"github.com/fenlock/fenlock/nodetest"
)

// testConformance is the test of an engine; memnode is in the place of yours.
func testConformance(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		n := memnode.New("store")
		return nodetest.Harness{Node: n, Other: n.Share(), Wait: time.Sleep}
	})
}

func ExampleRun() {
	_ = testConformance
}
