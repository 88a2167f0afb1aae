package natsnode

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

func TestConformance(t *testing.T) {
	s := testserver.StartNATS(t)
	bucket(t, s) // stays: a server that deletes its last stream removes the folder of all of them
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		url := bucket(t, s)
		return nodetest.Harness{Node: open(t, url), Other: open(t, url), Wait: time.Sleep}
	})
}

// A bucket that was made anew has another time of creation. A bucket whose server has lost its
// files has the same: there the mark is missing.
func TestAdmission(t *testing.T) {
	for what, wipe := range map[string]func(*testing.T, *testserver.NATS, string){"made anew": remake, "emptied": empty} {
		t.Run(what, func(t *testing.T) {
			s := testserver.StartNATS(t)
			bucket(t, s)
			nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
				url := bucket(t, s)
				return nodetest.Admission{Open: func() node.Node { return unjoined(t, url) },
					Wipe: func() { wipe(t, s, url) }, Wait: time.Sleep}
			})
		})
	}
}
