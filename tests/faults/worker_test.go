//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/history"
)

// testCrew are client processes that lock nothing, so that they need no servers.
func testCrew(t *testing.T, n int) (*crew, *resource) {
	t.Helper()
	r, err := newResource(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	c, err := startCrew(t.TempDir(), n, workerConfig{
		Library: libraryBroken, Names: lockNames, Resource: r.addr(), TTL: groupTTL, MaxTTL: groupTTL, Life: time.Minute,
	}, func(int) []string { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	return c, r
}

// awaitEvents waits until a client has written down so many events.
func awaitEvents(t *testing.T, c *crew, number, n int) []history.Event {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		events, err := readLog(c.log(number))
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

func TestCrew(t *testing.T) {
	c, _ := testCrew(t, 3)
	for number := 1; number <= 3; number++ {
		awaitEvents(t, c, number, 5)
	}
	if err := c.kill(1); err != nil {
		t.Fatal(err)
	}
	awaitEvents(t, c, 4, 5)
	if n := children(t); n != 3 {
		t.Errorf("%d processes after one was killed", n)
	}

	resume, err := c.pause(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.rest(200 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "client 1 has not let go") {
		t.Errorf("with a client that is stopped: %v", err)
	}
	resume()
	c.tell(sayGo)
	time.Sleep(50 * time.Millisecond)
	for range 3 {
		c.tell(sayGo)
		if err := c.rest(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		before := awaitEvents(t, c, 4, 5)
		time.Sleep(20 * time.Millisecond)
		if after := awaitEvents(t, c, 4, 5); len(after) != len(before) || after[len(after)-1].Kind == history.Acquired {
			t.Errorf("%d events, and %d while the client rests", len(before), len(after))
		}
	}

	c.tell(sayQuiet)
	if err := c.finish(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	all, err := c.events()
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
	if n := children(t); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// A client ends with its runner, and one that crashes is told of.
func TestCrewEnds(t *testing.T) {
	c, _ := testCrew(t, 2)
	awaitEvents(t, c, 1, 1)
	w := c.member(0)
	w.input.Close()
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
		t.Fatal("a client goes on without its runner")
	}
	c.tell(sayQuiet)
	if err := c.finish(30 * time.Second); err == nil || !strings.Contains(err.Error(), errEndOfInput.Error()) || strings.Contains(err.Error(), "client 2") {
		t.Errorf("%v", err)
	}
	if err := c.kill(0); err == nil {
		t.Error("a client was killed that had ended by itself")
	}
}

func TestWorkerBoundsItsLife(t *testing.T) {
	c, _ := testCrew(t, 1)
	c.config.Life = 50 * time.Millisecond
	if err := c.kill(0); err != nil {
		t.Fatal(err)
	}
	if err := c.finish(30 * time.Second); err == nil || !strings.Contains(err.Error(), "has not come to its end within 50ms") {
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

// What the harness does for a rival's lock: it is extended in time, and its user
// hears of its end.
func TestKeptLease(t *testing.T) {
	const ttl = 150 * time.Millisecond
	extended := make(chan struct{}, 1000)
	fail := make(chan struct{})
	l := newKeptLease(ttl, kept{
		extend: func(context.Context) (time.Duration, error) {
			select {
			case <-fail:
				return 0, errors.New("no")
			default:
				extended <- struct{}{}
				return clock.Now() + ttl, nil
			}
		},
		release: func(context.Context) error { return nil },
	})
	for range 5 {
		<-extended
	}
	close(fail)
	select {
	case <-l.context().Done():
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	if l.remaining() != 0 || !errors.Is(context.Cause(l.context()), errExpired) {
		t.Errorf("%v left, %v", l.remaining(), context.Cause(l.context()))
	}
	if err := l.release(t.Context()); !errors.Is(err, errExpired) {
		t.Errorf("release: %v", err)
	}
	if err := l.extend(t.Context()); !errors.Is(err, errExpired) {
		t.Errorf("extend: %v", err)
	}

	l = newKeptLease(time.Hour, kept{release: func(context.Context) error { return errors.New("unlock") }})
	if left := l.remaining(); left <= 0 || left > time.Hour {
		t.Errorf("%v left", left)
	}
	if err := l.release(t.Context()); err == nil || l.remaining() != 0 || !errors.Is(context.Cause(l.context()), errLetGo) {
		t.Errorf("release: %v; %v left; %v", err, l.remaining(), context.Cause(l.context()))
	}
}

func TestLogUniform(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	decades := make(map[string]int)
	for range 3000 {
		d := logUniform(rng, time.Millisecond, time.Second)
		if d < time.Millisecond || d > time.Second {
			t.Fatal(d)
		}
		decades[fmt.Sprint(len(fmt.Sprint(d.Milliseconds())))]++
	}
	for digits, n := range decades {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 3000 have %s digits", n, digits)
		}
	}
}
