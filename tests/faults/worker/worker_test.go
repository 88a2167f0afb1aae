//go:build linux

package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/resource"
	"github.com/fenlock/fenlock/tests/history"
)

// The client processes are this binary.
func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// start starts client processes that lock nothing, so that they need no servers.
func start(t *testing.T, n int) *Group {
	t.Helper()
	r := resource.New(true)
	t.Cleanup(func() { r.Close() })
	g, err := Start(t.TempDir(), n, Config{
		Config: library.Config{Library: library.Broken, TTL: time.Second},
		Names:  []string{"red", "green", "blue"}, Resource: r.URL(), Life: time.Minute,
	}, func(int) []string { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.End)
	return g
}

// awaitEvents waits until a client has written down so many events.
func awaitEvents(t *testing.T, g *Group, number, n int) []history.Event {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		events, err := readLog(g.log(number))
		if err != nil {
			t.Fatal(err)
		}
		if len(events) >= n {
			return events
		}
	}
	t.Fatalf("client %d does nothing", number)
	return nil
}

func TestGroup(t *testing.T) {
	g := start(t, 3)
	for number := 1; number <= 3; number++ {
		awaitEvents(t, g, number, 5)
	}
	if err := g.Kill(1); err != nil {
		t.Fatal(err)
	}
	awaitEvents(t, g, 4, 5)
	if n := probe.Children(t); n != 3 {
		t.Errorf("%d processes after one was killed", n)
	}

	resume, err := g.Pause(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Rest(200 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "client 1 has not let go") {
		t.Errorf("with a client that is stopped: %v", err)
	}
	resume()
	g.GoOn()
	time.Sleep(50 * time.Millisecond)
	for range 3 {
		g.GoOn()
		if err := g.Rest(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		before := awaitEvents(t, g, 4, 5)
		time.Sleep(20 * time.Millisecond)
		if after := awaitEvents(t, g, 4, 5); len(after) != len(before) || after[len(after)-1].Kind == history.Acquired {
			t.Errorf("%d events, and %d while the client rests", len(before), len(after))
		}
	}

	g.Quiet()
	if err := g.Finish(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	all, err := g.Events()
	if err != nil || len(all) != 4 {
		t.Fatal(len(all), err)
	}
	for i, events := range all {
		last := events[len(events)-1]
		if closed := last.Kind == history.Closed && last.Value == 0; closed != (i != 1) {
			t.Errorf("client %d ends with %+v", i+1, last)
		}
		names := make(map[string]bool)
		for _, e := range events[max(0, len(events)-30):] {
			if e.Kind == history.Acquired {
				names[e.Name] = true
			}
		}
		if i != 1 && len(names) != 3 {
			t.Errorf("client %d has acquired %v at the end", i+1, names)
		}
	}
	if n := probe.Children(t); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// A client ends with its runner, and one that crashes is told of.
func TestGroupEnds(t *testing.T) {
	g := start(t, 2)
	awaitEvents(t, g, 1, 1)
	w := g.member(0)
	w.input.Close()
	select {
	case <-w.done:
	case <-time.After(3 * time.Minute):
		t.Fatal("a client goes on without its runner")
	}
	g.Quiet()
	if err := g.Finish(30 * time.Second); err == nil || !strings.Contains(err.Error(), errEndOfInput.Error()) ||
		strings.Contains(err.Error(), "client 2") {
		t.Errorf("%v", err)
	}
	if err := g.Kill(0); err == nil {
		t.Error("a client was killed that had ended by itself")
	}
}

func TestWorkerBoundsItsLife(t *testing.T) {
	g := start(t, 1)
	g.config.Life = 50 * time.Millisecond
	if err := g.Kill(0); err != nil {
		t.Fatal(err)
	}
	if err := g.Finish(30 * time.Second); err == nil ||
		!strings.Contains(err.Error(), "has not come to its end within 50ms") {
		t.Error(err)
	}
}

func TestReadLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if events, err := readLog(path); err != nil || len(events) != 0 {
		t.Error("a file that is not there:", events, err)
	}
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	before := int64(clock.Now())
	log.write(history.Event{Kind: history.Acquire, Client: 1, Op: 1, Name: "red"})
	log.write(history.Event{At: 5, Kind: history.Failed, Client: 1, Op: 1, Name: "red"})
	log.file.WriteString(`{"at":12,"kind":"acq`)
	events, err := readLog(path)
	if err != nil || len(events) != 2 || events[0].At < before || events[1].At != 5 {
		t.Error("with a line that was cut off:", events, err)
	}
	log.file.WriteString("\n")
	if _, err := readLog(path); err == nil {
		t.Error("a bad line in the middle was taken")
	}
	if err := os.WriteFile(path, []byte(`{"at":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	if events, err := readLog(path); err != nil || len(events) != 0 {
		t.Error("with a part of a line only:", events, err)
	}
}
