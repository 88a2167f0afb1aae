//go:build linux

package kinds

import (
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/cluster"
)

func TestKill(t *testing.T) {
	for _, p := range []cluster.Persistence{cluster.Always, cluster.Off} {
		t.Run(string(p), func(t *testing.T) {
			st := newStage(t, 1, p)
			st.ask("SET", "key", "value")
			w := st.dial(0, 0)
			w.Answers("PING", "+PONG")
			pid := st.c.Members[0].Server().Pid()
			heal := st.inject("kill", 0, 1)
			w.Dead()
			st.refused()
			heal()
			want := map[cluster.Persistence]string{cluster.Always: "value", cluster.Off: "(nil)"}[p]
			if got := st.ask("GET", "key"); got != want || st.c.Members[0].Server().Pid() == pid {
				t.Errorf("got %q, want %q, in another process", got, want)
			}
		})
	}
}

func TestWipe(t *testing.T) {
	st := newStage(t, 1, cluster.Always)
	st.ask("SET", "key", "value")
	heal := st.inject("wipe", 0, 1)
	st.refused()
	heal()
	if got := st.ask("EXISTS", "key", cluster.RegistersKey); got != "0" {
		t.Errorf("%s keys are left after a wipe", got)
	}
}

func TestPromote(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	before := st.c.Members[0].Server()
	url, id := st.c.URLs(0)[0], testserver.Field(st.ask("INFO", "replication"), "master_replid")
	st.ask("SET", "key", "value")
	w := st.dial(0, 0)
	w.Answers("PING", "+PONG")
	heal := st.inject("promote", 0, 1)
	w.Dead()
	heal()
	if before.Pid() != 0 || st.c.Members[0].Server() == before || st.c.URLs(0)[0] != url {
		t.Error("the server is not another one at the same address")
	}
	if got := st.ask("GET", "key"); got != "value" {
		t.Errorf("the replica has %q", got)
	}
	if testserver.Field(st.ask("INFO", "replication"), "master_replid") == id {
		t.Error("its replication history is the old one's")
	}
	// It can be killed, like any other, and its clock is the one that the fault steps.
	st.inject("clock forward", 0, 1)()
	st.inject("kill", 0, 1)()
	if err := st.c.Members[0].Clock.Check(st.c.Members[0].Server().Pid()); err != nil {
		t.Error(err)
	}
}

func TestStopServer(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	w := st.dial(0, 0)
	heal := st.inject("stop server", 0, 1)
	w.Silent("PING")
	// A second fault of the kind ends it only together with the first.
	m := st.c.Members[0]
	if err := m.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := m.Thaw(); err != nil {
		t.Fatal(err)
	}
	w.Silent("PING")
	heal()
	w.Receives("+PONG", "+PONG")

	// One that was restarted since it was stopped can be stopped.
	if err := m.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Kill(false), m.Restart()); err != nil {
		t.Fatal(err)
	}
	w = st.dial(0, 0)
	w.Answers("PING", "+PONG")
	heal = st.inject("stop server", 0, 2)
	w.Silent("PING")
	if err := m.Thaw(); err != nil {
		t.Fatal(err)
	}
	heal()
}

func TestStarve(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	heal := st.inject("starve", 0, 1)
	m := st.c.Members[0]
	stands, runs := 0, 0
	for end := time.Now().Add(cluster.Patience); (stands == 0 || runs == 0) &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
		if m.Frozen() {
			stands++
		} else {
			runs++
		}
	}
	if stands == 0 || runs == 0 {
		t.Errorf("seen standing %d times, running %d times", stands, runs)
	}
	st.dial(0, 0).Answers("PING", "+PONG")
	heal()
	st.inject("starve", 0, 1)() // while it stands
}

func TestClients(t *testing.T) {
	st := newStage(t, 1, cluster.Off)
	heal := st.inject("pause client", 0, 1)
	if st.clients.paused != 1 {
		t.Errorf("%d clients are paused", st.clients.paused)
	}
	heal()
	st.inject("kill client", 0, 1)()
	if st.clients.paused != 0 || st.clients.killed != 1 {
		t.Errorf("%d clients are paused, %d killed", st.clients.paused, st.clients.killed)
	}
	st.clients.n = 0
	for _, name := range []string{"pause client", "kill client"} {
		if _, err := All[Index(All, name)].Inject(st.scene(0, 1)); !errors.Is(err, cluster.ErrNotNow) {
			t.Errorf("%s without clients: %v", name, err)
		}
	}
}
