//go:build linux || darwin || freebsd

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The test binary is the client process too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "client" {
		if err := RunClient(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// play plays a scene, and returns what has happened and what Play has. A hook may be nil, and
// hears each event. It fails the test if something is left in the folder for temporary files, or
// a line is too long.
func play(t *testing.T, ctx context.Context, s Scene, hook func(Event)) ([]Event, error) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "a folder, 100% 'temporary'")
	must(t, os.Mkdir(folder, 0o700))
	t.Setenv("TMPDIR", folder)
	var events []Event
	var shown bytes.Buffer
	screen := Terminal{Out: &shown}
	player := Player{Client: []string{os.Args[0], "client"}, Emit: func(e Event) {
		events = append(events, e)
		screen.Show(e)
		if hook != nil {
			hook(e)
		}
	}}
	err := player.Play(ctx, s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it was:\n%s", &shown)
		}
	})
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
	for line := range strings.Lines(shown.String()) {
		if len(line) > columns+1 && !strings.Contains(line, "--nodes-file") {
			t.Errorf("this line has more than %d columns: %s", columns, line)
		}
	}
	return events, err
}

// playAsTold plays a scene that has to go as told. It fails the test unless its events are these,
// but for what is said to explain: "holds client 1".
func playAsTold(t *testing.T, name string, want ...string) []Event {
	t.Helper()
	testserver.Kinds(t) // or it says what to install
	events, err := play(t, t.Context(), Scenes(name)[0], nil)
	must(t, err)
	events = slices.DeleteFunc(events, func(e Event) bool { return e.What == Tell || e.What == Command || e.What == Does })
	wantEvents(t, events, append(append([]string{"begin ", "started demo"}, want...), "checked demo", "shown ",
		"promise ")...)
	return events
}

func wantEvents(t *testing.T, events []Event, want ...string) {
	t.Helper()
	var have []string
	for _, e := range events {
		have = append(have, string(e.What)+" "+e.Actor)
	}
	if !slices.Equal(have, want) {
		t.Fatalf("it was\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestPaused(t *testing.T) {
	events := playAsTold(t, "paused",
		"holds client 1", "stopped demo", "holds client 2", "wrote account", "goes on demo", "harm account", "lost client 1",
		"harm demo",
		"holds client 1", "stopped demo", "holds client 2", "wrote account", "goes on demo", "stale account",
		"holds client 1", "wrote account")
	for i, text := range map[int]string{7: "50 -> 70, written by client 1", 15: "refuses 70 from client 1",
		17: "50 -> 20, written by client 1"} {
		if !strings.HasPrefix(events[i].Text, text) {
			t.Errorf("it is %q, want %q", events[i].Text, text)
		}
	}
}

// With each kind of server that is installed.
func TestRestart(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		limitPath(t, string(kind)+"-server")
		events := playAsTold(t, "restart", "holds client A", "holds client A", "killed s2", "started s2",
			"harm client B", "refused client B", "extends client A")
		if text := events[1].Text; !strings.Contains(strings.ToLower(text), string(kind)) {
			t.Errorf("the servers are to be %s: %s", kind, text)
		}
		// MaxTTL and a second, less what has passed.
		if text := events[7].Text; !strings.Contains(text, "s2 does not vote for another ") ||
			!strings.Contains(text, "may have forgotten leases") {
			t.Errorf("it is not said why: %s", text)
		}
	})
}

func TestOutage(t *testing.T) {
	events := playAsTold(t, "outage", "holds client 1", "killed demo", "extends client 1", "gives client 1",
		"holds client 2",
		"killed demo", "refused client 2", "waits client 3", "lost client 2", "started demo", "holds client 3")
	if text := events[8].Text; !strings.HasSuffix(text, ": no quorum: 3 of 5 nodes are missing, 3 are needed") {
		t.Errorf("client 2 is not told why: %s", text)
	}
}

// Only the user can read the file that "fenlock ui" is given. It names the servers.
func TestNodesFile(t *testing.T) {
	testserver.Kinds(t)
	s := Scene{Name: "look", play: func(st *stage) { st.newGroup(2, false, pausedTTL) }}
	looked := false
	if _, err := play(t, t.Context(), s, func(e Event) {
		if e.What != Command {
			return
		}
		looked = true
		_, path, _ := strings.Cut(e.Text, "fenlock ui --nodes-file ")
		text, err := os.ReadFile(path)
		if err != nil || strings.Count(string(text), "valkey://127.0.0.1:") != 2 {
			t.Errorf("%q, %v", text, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}); err != nil || !looked {
		t.Errorf("looked: %v, %v", looked, err)
	}
}

// limitPath leaves these programs in the PATH, and what a shell needs to clean up.
func limitPath(t *testing.T, programs ...string) {
	t.Helper()
	folder := t.TempDir()
	for _, p := range append(programs, "sh", "rm") {
		path, err := exec.LookPath(p)
		if err == nil {
			err = os.Symlink(path, filepath.Join(folder, p))
		}
		must(t, err)
	}
	t.Setenv("PATH", folder)
}

// Where no server is installed, the demo says what to install.
func TestWithoutServers(t *testing.T) {
	limitPath(t)
	if events, err := play(t, t.Context(), Scenes()[0], nil); !errors.Is(err, ErrNoServer) || len(events) > 0 {
		t.Errorf("%v, Play: %v", events, err)
	}
}

// A server is a server only if its version is new enough.
func TestOldRedis(t *testing.T) {
	limitPath(t)
	folder := os.Getenv("PATH")
	for version, found := range map[string]string{
		"Redis server v=6.2.14 sha=0": "", "Redis server v=7.2.4 sha=0": "Redis 7.2.4",
		"Redis server v=10.0 sha=0":   "Redis 10.0",
		"Valkey server v=8.0.1 sha=0": "Valkey 8.0.1", "unknown": "",
	} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)
		must(t, os.WriteFile(filepath.Join(folder, "redis-server"), []byte(script), 0o700))
		if _, have := findServer(); have != found {
			t.Errorf("%q: found %q, want %q", version, have, found)
		}
	}
}

// A scene that goes another way says so, and ends what it has started.
func TestOtherwise(t *testing.T) {
	testserver.Kinds(t)
	var g *group
	s := Scene{Name: "lie", Title: "a claim that does not hold", play: func(st *stage) {
		g = st.newGroup(1, false, pausedTTL)
		st.require(false, "the guard has let a stale write pass")
		st.say("demo", Checked, "not to be said")
	}}
	events, err := play(t, t.Context(), s, nil)
	if !errors.Is(err, ErrOtherwise) {
		t.Errorf("Play: %v", err)
	}
	wantEvents(t, events, "begin ", "started demo", "command ", "failed ")
	if text := events[3].Text; !strings.Contains(text, "the guard has let a stale write pass") {
		t.Errorf("it is not said what: %s", text)
	}
	if g.servers[0].run.alive() {
		t.Error("s1 has not ended")
	}
}

// A server or a client that ends too early is no reason to wait for it, and it is said why.
func TestEndsEarly(t *testing.T) {
	testserver.Kinds(t)
	t.Run("client", func(t *testing.T) {
		s := Scene{play: func(st *stage) {
			st.Client = []string{"sh", "-c", "echo no such library >&2"}
			st.newGroup(1, false, pausedTTL).client("client 1").do(order{Do: doCheck})
		}}
		events, err := play(t, t.Context(), s, nil)
		if text := events[len(events)-1].Text; !errors.Is(err, ErrOtherwise) ||
			!strings.Contains(text, "client 1 does not answer: EOF. no such library") {
			t.Errorf("Play: %v: %s", err, text)
		}
	})
	t.Run("server", func(t *testing.T) {
		s := Scene{play: func(st *stage) {
			st.binary = "/bin/sh"
			st.newGroup(1, false, pausedTTL)
		}}
		events, err := play(t, t.Context(), s, nil)
		if text := events[len(events)-1].Text; !errors.Is(err, ErrOtherwise) ||
			!strings.Contains(text, "/bin/sh has ended: ") {
			t.Errorf("Play: %v: %s", err, text)
		}
	})
}

// Ctrl-C in the middle ends the scene there.
func TestInterrupted(t *testing.T) {
	testserver.Kinds(t)
	why := errors.New("Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	events, err := play(t, ctx, Scenes()[0], func(e Event) {
		if e.What == Stopped {
			cancel(why)
		}
	})
	if !errors.Is(err, why) {
		t.Errorf("Play: %v", err)
	}
	if last := events[len(events)-1]; last.What != Stopped {
		t.Errorf("it went on with %+v", last)
	}
}

// The promises are those of docs/promises.md.
func TestPromises(t *testing.T) {
	promised, err := os.ReadFile("../../../../docs/promises.md")
	must(t, err)
	for _, s := range Scenes() {
		if !strings.Contains(string(promised), "\n| "+s.Promise[0]+" | "+s.Promise[1]) {
			t.Errorf("%s: this is not promised: %q", s.Name, s.Promise)
		}
	}
}

// A client that was stopped for long does not write on a connection that the account has closed
// meanwhile.
func TestNewConnections(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, "100")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for range 3 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		must(t, err)
		if r := (reply{}); r.send(request) != nil || r.Balance != 100 {
			t.Errorf("%+v", r)
		}
	}
	if n := opened.Load(); n != 3 {
		t.Errorf("%d connections for 3 requests", n)
	}
}

// A client answers what it cannot do, and goes on.
func TestOrdersInVain(t *testing.T) {
	orders := strings.NewReader(`{"do":"release"} {"do":"dance"}`)
	var replies bytes.Buffer
	if err := RunClient([]string{"client 1", "valkey://127.0.0.1:1"}, orders, &replies); err != nil {
		t.Error(err)
	}
	if text := replies.String(); strings.Count(text, `{"error":"there is no lock"}`) != 2 {
		t.Error(text)
	}
	for _, test := range []struct {
		args []string
		in   string
	}{{nil, ""}, {[]string{"client 1", "valkey://127.0.0.1:1"}, "hello"}} {
		if err := RunClient(test.args, strings.NewReader(test.in), &replies); err == nil ||
			!strings.Contains(err.Error(), "is started by fenlock demo") {
			t.Errorf("RunClient: %v", err)
		}
	}
}
