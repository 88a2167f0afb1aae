//go:build linux

package kinds

import (
	"os"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// Each kind of fault of a file does what it is said to, and leaves a file that can be used.
func TestFile(t *testing.T) {
	if !testserver.Mounts(t) {
		return
	}
	group, _ := cluster.On("file")
	st := &stage{t: t, c: cluster.New(t, group, 1, cluster.Off, 1), clients: &standIns{n: 3}}
	m := st.c.Members[0]
	open := func(client int) node.Node {
		n, err := library.OpenNode(st.c.URLs(client)[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	do := func(n node.Node, op node.Op, name, holder string) node.Status {
		a, err := n.Do(t.Context(), node.Request{Op: op, Name: name,
			Holder: node.Holder(holder + "0123456789abcdef0123456789abcde:"), TTL: time.Hour})
		if err != nil {
			return 0
		}
		return a.Status
	}
	one, other := open(0), open(1) // the second one by a link
	if got := do(one, node.Acquire, "a", "1"); got != node.Granted {
		t.Fatal(got)
	}
	if got := do(other, node.Acquire, "a", "2"); got != node.Held {
		t.Error(got)
	}

	heal := st.inject("full disk", 0, 1)
	if got := do(one, node.Acquire, "of another room", "1"); got == node.Granted {
		t.Error("the disk is not full")
	}
	if got := do(one, node.Extend, "a", "1"); got != node.Granted {
		t.Error(got)
	}
	heal()
	if got := do(one, node.Acquire, "of another room", "1"); got != node.Granted {
		t.Error(got)
	}

	pipes := m.Server().Addr() + "-waiters"
	if err := one.(node.Queuer).Listen(t.Context(), "0123456789abcdef0123456789abcdef", func(string) {}); err != nil {
		t.Fatal(err)
	}
	_, before := os.Stat(pipes)
	st.inject("remove pipes", 0, 1)()
	if _, err := os.Stat(pipes); before != nil || err == nil {
		t.Errorf("the pipes were there: %v, and are: %v", before, err)
	}

	heal = st.inject("kill clients", 0, 1)
	for end := time.Now().Add(cluster.Patience); st.notes() < 5 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	heal()
	if st.clients.killed < 5 {
		t.Errorf("%d clients were killed", st.clients.killed)
	}

	for range 2 {
		for seed := range uint64(4) {
			old, killed := open(1), st.clients.killed
			do(old, node.Acquire, "a", "1")
			heal = st.inject("replace file", 0, seed)
			if got := do(old, node.Extend, "a", "1"); got != node.Lost {
				t.Errorf("seed %d: %v", seed, got)
			}
			heal()
			if st.clients.killed != killed+st.clients.n {
				t.Errorf("%d clients were killed", st.clients.killed-killed)
			}
			if got := do(open(0), node.Acquire, "a", "2"); got != node.Granted {
				t.Errorf("seed %d: %v in the new file", seed, got)
			}
		}
	}
}
