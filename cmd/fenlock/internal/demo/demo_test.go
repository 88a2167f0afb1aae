//go:build linux || darwin || freebsd

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The test binary is the client process too.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"client"}) {
		if err := RunClient(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// play plays scenes, and returns what has happened and what Play has. It fails the test
// if something is left in the folder for temporary files, or a line is too long.
func play(t *testing.T, names ...string) ([]Event, error) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "a folder, 100% 'temporary'")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", folder)
	var scenes []Scene
	for _, name := range names {
		s, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		scenes = append(scenes, s)
	}
	var events []Event
	var shown bytes.Buffer
	screen := Terminal{Out: &shown}
	player := Player{Client: []string{os.Args[0], "client"}, Emit: func(e Event) {
		events = append(events, e)
		screen.Show(e)
	}}
	err := player.Play(t.Context(), scenes...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it was:\n%s", &shown)
		}
	})
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
	for line := range strings.Lines(shown.String()) {
		if len(line) > columns+1 {
			t.Errorf("this line has more than %d columns: %s", columns, line)
		}
	}
	return events, err
}

// playAsTold is play for a scene that goes as told.
func playAsTold(t *testing.T, name string) []Event {
	t.Helper()
	testserver.Kinds(t) // or it says what to install
	events, err := play(t, name)
	if err != nil {
		t.Fatal(err)
	}
	if first := events[0]; first.What != Begin || first.Scene != name {
		t.Errorf("it begins with %+v", first)
	}
	for i, e := range events {
		if e.Scene != name || i > 0 && e.At < events[i-1].At {
			t.Errorf("%+v comes after %+v", e, events[max(0, i-1)])
		}
	}
	if last := events[len(events)-1]; last.What != Promise {
		t.Errorf("it ends with %+v", last)
	}
	return events
}

// only returns the events of some kinds.
func only(events []Event, kinds ...What) (some []Event) {
	for _, e := range events {
		if slices.Contains(kinds, e.What) {
			some = append(some, e)
		}
	}
	return some
}

// want fails the test unless these events, of some kinds, are those of the actors, in
// this order: "holds client 1".
func want(t *testing.T, events []Event, what ...string) {
	t.Helper()
	var have []string
	for _, e := range events {
		have = append(have, string(e.What)+" "+e.Actor)
	}
	if !slices.Equal(have, what) {
		t.Errorf("it was\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(what, "\n\t"))
	}
}

// growing fails the test unless each token is larger than the one before.
func growing(t *testing.T, holds []Event) {
	t.Helper()
	for i, e := range holds {
		if !e.Token.Valid() || i > 0 && e.Token <= holds[i-1].Token {
			t.Errorf("the tokens do not grow: %+v", holds)
		}
	}
}

func TestContention(t *testing.T) {
	events := only(playAsTold(t, "contention"), Holds, Waits, Gives, Checked)
	want(t, events, "holds client 1", "waits client 2", "waits client 3", "waits client 4", "waits client 5",
		"gives client 1", "holds client 2", "gives client 2", "holds client 3", "gives client 3", "holds client 4",
		"gives client 4", "holds client 5", "gives client 5", "checked demo")
	growing(t, only(events, Holds))
}

func TestOutage(t *testing.T) {
	events := only(playAsTold(t, "outage"), Holds, Waits, Gives, Extends, Refused, Lost, Killed, Started, Checked)
	want(t, events, "started demo", "holds client 1", "killed demo", "extends client 1", "gives client 1", "holds client 2",
		"killed demo", "refused client 2", "waits client 3", "lost client 2", "started demo", "holds client 3", "checked demo")
	growing(t, only(events, Holds))
	for _, e := range only(events, Refused) {
		if !strings.Contains(e.Text, "no quorum: 3 of 5 nodes are missing, 3 are needed") {
			t.Errorf("%s is not told why: %s", e.Actor, e.Text)
		}
	}
}

func TestPaused(t *testing.T) { checkPaused(t, playAsTold(t, "paused")) }

func checkPaused(t *testing.T, events []Event) {
	t.Helper()
	events = only(events, Holds, Stopped, GoesOn, Wrote, Stale, Harm, Lost, Checked)
	want(t, events,
		"holds client 1", "stopped demo", "holds client 2", "wrote account", "goes on demo", "harm account", "lost client 1", "harm demo",
		"holds client 1", "stopped demo", "holds client 2", "wrote account", "goes on demo", "stale account", "lost client 1", "holds client 1", "wrote account", "checked demo")
	if t.Failed() {
		return
	}
	growing(t, only(events, Holds))
	unguarded, guarded := events[:8], events[8:]
	if first, then := unguarded[3], unguarded[5]; first.Value != 50 || then.Value != 70 {
		t.Errorf("unguarded: the balance is %d and then %d, want 50 and 70", first.Value, then.Value)
	}
	if first, then := guarded[3], guarded[8]; first.Value != 50 || then.Value != 20 {
		t.Errorf("guarded: the balance is %d and then %d, want 50 and 20", first.Value, then.Value)
	}
	if first, second, stale := guarded[0], guarded[2], guarded[5]; stale.Value != 70 || stale.Token != first.Token || stale.Token >= second.Token {
		t.Errorf("%d with the token %d was refused, client 1's is %d, client 2's %d", stale.Value, stale.Token, first.Token, second.Token)
	}
}

// With each kind of server that is installed.
func TestRestart(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		limitPath(t, string(kind)+"-server")
		events := only(playAsTold(t, "restart"), Holds, Killed, Started, Harm, Refused, Extends, Checked)
		want(t, events, "started demo", "holds client A", "holds client A", "killed s2", "started s2",
			"harm client B", "refused client B", "extends client A", "checked demo")
		if text := events[0].Text; !strings.Contains(strings.ToLower(text), string(kind)) {
			t.Errorf("the servers are to be %s: %s", kind, text)
		}
		for _, e := range only(events, Refused) {
			if !strings.Contains(e.Text, "may have forgotten leases; voting starts in 3") {
				t.Errorf("it is not said why: %s", e.Text)
			}
		}
	})
}

func TestClock(t *testing.T) {
	events := only(playAsTold(t, "clock"), Holds, Refused, Harm, Wrote, Stale, Lost, Checked)
	want(t, events, "holds client 1", "refused client 2", "holds client 2", "harm client 1", "wrote account", "stale account",
		"lost client 1", "holds client 3", "holds client 2", "checked demo")
	growing(t, only(events, Holds))
}

func TestRolling(t *testing.T) {
	events := playAsTold(t, "rolling")
	want(t, only(events, Holds, Waits, Started, Extends, Gives, Lost, Checked), "started demo", "holds client 1", "waits client 2",
		"started s1", "started s2", "started s3", "extends client 1", "gives client 1", "holds client 2", "checked demo")
	growing(t, only(events, Holds))
	for _, e := range only(events, Does) {
		if !strings.HasSuffix(e.Text, "leases: s1 s2 s3") {
			t.Errorf("%s has voted again, and: %s", e.Actor, e.Text)
		}
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
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder)
}

// Where no server is installed, what can be played is played, and the rest is not
// passed over in silence.
func TestWithoutServers(t *testing.T) {
	limitPath(t)
	events, err := play(t, "paused", "outage")
	if !errors.Is(err, ErrNoServer) {
		t.Errorf("Play: %v", err)
	}
	var scenes [2][]Event
	for _, e := range events {
		i := slices.Index([]string{"paused", "outage"}, e.Scene)
		scenes[i] = append(scenes[i], e)
	}
	checkPaused(t, scenes[0])
	want(t, scenes[1], "begin ", "lacks ")
	if text := scenes[1][1].Text; !strings.Contains(text, "apt-get install valkey-server") {
		t.Errorf("it is not said what to do: %s", text)
	}
}

// A server is a server only if its version is new enough.
func TestOldRedis(t *testing.T) {
	limitPath(t)
	folder := os.Getenv("PATH")
	for version, found := range map[string]string{
		"Redis server v=6.2.14 sha=0": "", "Redis server v=7.2.4 sha=0": "Redis 7.2.4", "Redis server v=10.0 sha=0": "Redis 10.0",
		"Valkey server v=8.0.1 sha=0": "Valkey 8.0.1", "unknown": "",
	} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)
		if err := os.WriteFile(filepath.Join(folder, "redis-server"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		have := ""
		if b := findBinary(); b != nil {
			have = b.String()
		}
		if have != found {
			t.Errorf("%q: found %q, want %q", version, have, found)
		}
	}
}

// A scene that goes another way says so, and ends what it has started.
func TestOtherwise(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var c *client
	lie := Scene{Name: "lie", Title: "a claim that does not hold", play: func(st *stage) {
		nodes := []string{"sqlite://" + filepath.Join(st.folder, "locks.db")}
		c = newCast(st, nodes, pausedTTL).client("client 1", pausedTTL)
		c.do(order{Do: doAcquire, Name: "lie"}, acquired).says(Holds, "has the lock")
		st.require(false, "the guard has let a stale write pass")
		st.say("demo", Checked, "not to be said")
	}}
	var events []Event
	player := Player{Client: []string{os.Args[0], "client"}, Emit: func(e Event) { events = append(events, e) }}
	if err := player.Play(t.Context(), lie); !errors.Is(err, ErrOtherwise) {
		t.Errorf("Play: %v", err)
	}
	want(t, events, "begin ", "holds client 1", "failed ")
	if text := events[len(events)-1].Text; !strings.Contains(text, "the guard has let a stale write pass") {
		t.Errorf("it is not said what: %s", text)
	}
	if c.run.alive() {
		t.Error("client 1 has not ended")
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}

// A client that ends too early is no reason to wait for it.
func TestClientEnds(t *testing.T) {
	player := Player{Client: []string{"sh", "-c", "echo no such library >&2"}, Emit: func(Event) {}}
	var events []Event
	player.Emit = func(e Event) { events = append(events, e) }
	limitPath(t)
	s, err := Find("paused")
	if err != nil {
		t.Fatal(err)
	}
	if err := player.Play(t.Context(), s); !errors.Is(err, ErrOtherwise) {
		t.Errorf("Play: %v", err)
	}
	if text := events[len(events)-1].Text; !strings.Contains(text, "no such library") {
		t.Errorf("it is not said why: %s", text)
	}
}

// Whoever ends the demo in the middle is heard.
func TestInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	why := errors.New("Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var events []Event
	player := Player{Client: []string{os.Args[0], "client"}, Emit: func(e Event) {
		if events = append(events, e); e.What == Stopped {
			cancel(why)
		}
	}}
	limitPath(t)
	s, err := Find("paused")
	if err != nil {
		t.Fatal(err)
	}
	if err := player.Play(ctx, s); !errors.Is(err, why) {
		t.Errorf("Play: %v", err)
	}
	if last := events[len(events)-1]; last.What != Stopped {
		t.Errorf("it went on with %+v", last)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
}

// The promises are those of docs/promises.md.
func TestPromises(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	promised := string(text)
	for _, s := range Scenes() {
		if len(s.Promises) == 0 {
			t.Errorf("%s is about no promise", s.Name)
		}
		for _, p := range s.Promises {
			if !strings.Contains(promised, "\n| "+p[0]+" | "+p[1]) {
				t.Errorf("%s: this is not promised: %s, as long as %s", s.Name, p[0], p[1])
			}
		}
	}
}

func TestFind(t *testing.T) {
	for name, found := range map[string]string{"paused": "paused", "3": "paused", "1": "contention", "6": "rolling",
		"0": "", "7": "", "-1": "", "": "", "Paused": "", "../paused": ""} {
		s, err := Find(name)
		if s.Name != found || (err == nil) != (found != "") {
			t.Errorf("Find(%q) = %q, %v", name, s.Name, err)
		}
	}
}
