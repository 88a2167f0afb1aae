//go:build linux

package kinds

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/library"
)

func TestOn(t *testing.T) {
	for name, want := range map[string]string{
		"valkey":    "kill, wipe, promote, stop server, starve, pause client, kill client, clock forward, clock back, NET, flush, script flush, evict, oom, readonly, misconf, client pause, acl",
		"postgres":  "kill, stop server, starve, pause client, kill client, clock forward, clock back, NET, restart, replace, end sessions, crash backend, read only",
		"mysql":     "kill, stop server, starve, pause client, kill client, clock forward, clock back, NET, restart, replace, end sessions, read only",
		"etcd":      "kill, wipe, stop server, starve, pause client, kill client, NET, restart",
		"nats":      "kill, wipe, stop server, starve, pause client, kill client, NET, restart",
		"file":      "pause client, kill client, kill clients, full disk, replace file, remove pipes",
		"s3":        "kill, wipe, stop server, starve, pause client, kill client, NET, restart",
		"zookeeper": "kill, wipe, stop server, starve, pause client, kill client, clock forward, clock back, NET, restart",
	} {
		group, _ := cluster.On(name)
		got := strings.Join(Names(On(group)), ", ")
		if want = strings.Replace(want, "NET", strings.Join(Names(networkKinds), ", "), 1); got != want {
			t.Errorf("on %s: %s\nwant %s", name, got, want)
		}
	}
	mixed, _ := cluster.On("mixed")
	for _, k := range slices.Concat(On(cluster.Groups[0]), On(cluster.Groups[1])) {
		if Index(On(mixed), k.Name) < 0 {
			t.Errorf("%s is not tried on a mixed group", k.Name)
		}
	}
}

// The kinds of processes, clocks and databases, on each of the other engines. They begin, strike,
// can be healed, leave a normal server, and cost what they are said to. What the network does is no
// matter of the server's.
func TestEngines(t *testing.T) {
	for _, group := range cluster.Groups[1:6] {
		t.Run(group.Name, func(t *testing.T) {
			st := &stage{t: t, c: cluster.New(t, group, 1, cluster.Off, 1), clients: &standIns{n: 2}}
			client, err := library.OpenNode(st.c.URLs(0)[0])
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for _, k := range On(group) {
				if Index(networkKinds, k.Name) >= 0 || k.Nodeless {
					continue
				}
				m := st.c.Members[0]
				before := m.Server().Pid()
				st.reach(client)
				heal := st.inject(k.Name, 0, 1)
				if down := m.Server().Pid() != before; down != slices.Contains([]string{"kill", "wipe", "restart"}, k.Name) {
					t.Errorf("%s: the server is down: %v", k.Name, down)
				}
				heal()
				admitted, loss := st.c.Admitted(0), k.Costs(m.Engine, cluster.Off)
				for end := time.Now().Add(cluster.HealLimit); !admitted && loss == cluster.Nothing && time.Now().Before(end); {
					admitted = st.c.Admitted(0) // it takes a while to answer; no client has it admitted meanwhile
				}
				if admitted != (loss == cluster.Nothing) {
					t.Errorf("%s: admitted %v, and it costs %d", k.Name, admitted, loss)
				}
				if !admitted {
					if err := st.c.Admit(); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// reach waits until a client has a connection to the server.
func (st *stage) reach(client node.Node) {
	st.t.Helper()
	ctx, cancel := context.WithTimeout(st.t.Context(), cluster.HealLimit)
	defer cancel()
	for {
		_, err := client.Engine().(node.Admin).Inspect(ctx, "reached")
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			st.t.Fatal(err)
		}
	}
}
