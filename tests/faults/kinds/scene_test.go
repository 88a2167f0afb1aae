//go:build linux

package kinds

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/tests/faults/cluster"
)

// stage is a cluster, and a scene on it, for tests of faults. Its TTL is short, so
// that faults which last are over soon.
type stage struct {
	t       *testing.T
	c       *cluster.Cluster
	clients *standIns
	mu      sync.Mutex // guards noted
	noted   []string
}

func newStage(t *testing.T, nodes int, p cluster.Persistence) *stage {
	t.Helper()
	return &stage{t: t, c: cluster.New(t, cluster.Groups[0], nodes, p, 1), clients: &standIns{n: 3}}
}

func (st *stage) scene(node int, seed uint64) *Scene {
	return &Scene{
		RNG: rand.New(rand.NewPCG(seed, 0)), Cluster: st.c, Node: node, Clients: st.clients, TTL: 100 * time.Millisecond,
		Note: func(fault string, node int, breaks string) {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.noted = append(st.noted, fmt.Sprintf("%s %d %s", fault, node, breaks))
		},
	}
}

// notes returns how many there are.
func (st *stage) notes() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.noted)
}

// seedFor returns a seed with which a fault draws what a test is about.
func (st *stage) seedFor(suits func(rng *rand.Rand) bool) uint64 {
	for seed := range uint64(1000) {
		if suits(st.scene(0, seed).RNG) {
			return seed
		}
	}
	st.t.Fatal("no seed suits")
	return 0
}

// inject has a fault begin; heal fails the test if the fault cannot be healed.
func (st *stage) inject(name string, node int, seed uint64) (heal func()) {
	st.t.Helper()
	undo, err := known[Index(known, name)].Inject(st.scene(node, seed))
	if err != nil {
		st.t.Fatalf("%s: %v", name, err)
	}
	return func() {
		st.t.Helper()
		if err := undo(); err != nil {
			st.t.Fatalf("%s: heal: %v", name, err)
		}
		st.normal(node)
	}
}

// normal fails the test unless the server and its network are as they began.
func (st *stage) normal(node int) {
	st.t.Helper()
	if err := st.c.Members[node].Normal(); err != nil {
		st.t.Error(err)
		return
	}
	if st.c.Members[node].Engine != cluster.Valkey {
		return
	}
	if reply, err := st.dial(node, 0).Say(probe.Patience, "PING"); reply != "+PONG" {
		st.t.Errorf("through the proxy: %q, %v", reply, err)
	}
}

// ask asks the first server, past the proxy.
func (st *stage) ask(args ...string) string {
	st.t.Helper()
	reply, err := st.c.Members[0].Ask(cluster.Patience, args...)
	if err != nil {
		st.t.Fatal(err)
	}
	return reply
}

// dial connects to a server as a client does.
func (st *stage) dial(node, client int) *probe.Wire {
	st.t.Helper()
	return probe.Dial(st.t, st.c.Members[node].Proxy.Addr(client))
}

// refused fails the test unless a new connection to the first server is cut.
func (st *stage) refused() {
	st.t.Helper()
	probe.Refused(st.t, st.c.Members[0].Proxy.Addr(0))
}

// standIns are clients that only count.
type standIns struct {
	n              int
	paused, killed int
}

func (s *standIns) Count() int { return s.n }

func (s *standIns) Pause(int) (func(), error) {
	s.paused++
	return func() { s.paused-- }, nil
}

func (s *standIns) Kill(int) error {
	s.killed++
	return nil
}
