package fenlock_test

import (
	"io"
	"log/slog"
	"time"

	"github.com/fenlock/fenlock/sim"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// Every script is about one thing that the shell does around the core. Steps are
// in the order of their times, some 0.4 ms past the millisecond, so that nothing
// happens where it is rounded.
var scripts = []sim.Script{
	script("held, extended and released", 1500,
		at(10, 0, sim.Acquire, "A"), at(1400, 0, sim.Release, "A")),
	script("an attempt that does not wait", 300,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.TryAcquire, "B"), at(100, 0, sim.Release, "A"), at(150, 1, sim.TryAcquire, "C"),
		at(200, 1, sim.Release, "C")),
	script("one waits", 800,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(600, 0, sim.Release, "A"), at(700, 1, sim.Release, "B")),
	script("three wait in line", 900,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(100, 2, sim.Acquire, "C"), at(150, 3, sim.Acquire, "D"),
		at(500, 0, sim.Release, "A"), at(600, 1, sim.Release, "B"), at(700, 2, sim.Release, "C"), at(800, 3, sim.Release, "D")),
	script("two of one process, one of another between them", 1000,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(100, 2, sim.Acquire, "C"), at(150, 1, sim.Acquire, "D"),
		at(500, 0, sim.Release, "A"), at(600, 1, sim.Release, "B"), at(700, 2, sim.Release, "C"), at(800, 1, sim.Release, "D")),
	script("two of one process, before one of another", 1000,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(100, 1, sim.Acquire, "C"), at(150, 2, sim.Acquire, "D"),
		at(500, 0, sim.Release, "A"), at(600, 1, sim.Release, "B"), at(700, 1, sim.Release, "C"), at(800, 2, sim.Release, "D")),
	script("one gives up in the middle of the line", 900,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(100, 2, sim.Acquire, "C"), at(300, 1, sim.Cancel, "B"),
		at(500, 0, sim.Release, "A"), at(700, 2, sim.Release, "C")),
	script("one gives up behind another of its process", 900,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(100, 1, sim.Acquire, "C"), at(150, 1, sim.Acquire, "D"), at(300, 1, sim.Cancel, "C"),
		at(500, 0, sim.Release, "A"), at(600, 1, sim.Release, "B"), at(700, 1, sim.Release, "D")),
	script("one gives up, those behind it in its process go on", 900,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(100, 1, sim.Acquire, "C"), at(300, 1, sim.Cancel, "B"),
		at(500, 0, sim.Release, "A"), at(600, 1, sim.Release, "C")),
	script("given up while the nodes are asked", 900,
		cut(5, 0, sim.CutRequests, 0), cut(6, 0, sim.CutRequests, 1), at(10, 0, sim.Acquire, "A"), at(100, 0, sim.Cancel, "A"),
		cut(300, 0, sim.Heal, 0), cut(301, 0, sim.Heal, 1), at(400, 0, sim.TryAcquire, "B"), at(500, 0, sim.Release, "B")),
	script("one node silent", 1500,
		cut(5, 0, sim.CutRequests, 1), at(10, 0, sim.Acquire, "A"), at(400, 0, sim.Extend, "A"), cut(700, 0, sim.Heal, 1), at(1300, 0, sim.Release, "A")),
	script("the answers of one node are lost", 1500,
		cut(5, 0, sim.CutReplies, 2), at(10, 0, sim.Acquire, "A"), at(100, 0, sim.Release, "A"),
		at(700, 0, sim.Acquire, "B"), cut(900, 0, sim.Heal, 2), at(1400, 0, sim.Release, "B")),
	script("a majority silent: failed, released where it was granted", 1500,
		cut(5, 0, sim.CutReplies, 1), cut(6, 0, sim.CutRequests, 2), at(10, 0, sim.TryAcquire, "A"),
		cut(600, 0, sim.Heal, 1), cut(601, 0, sim.Heal, 2), at(1200, 0, sim.TryAcquire, "B"), at(1400, 0, sim.Release, "B")),
	script("lost while it is held", 2600,
		at(10, 0, sim.Acquire, "A"), cut(100, 0, sim.CutRequests, 0), cut(101, 0, sim.CutRequests, 1), at(500, 1, sim.TryAcquire, "B"),
		at(1600, 1, sim.TryAcquire, "C"), cut(1700, 0, sim.Heal, 0), cut(1701, 0, sim.Heal, 1), at(1800, 0, sim.Release, "A"), at(2500, 1, sim.Release, "C")),
	long("held for too long", 3200,
		at(10, 0, sim.Acquire, "A"), at(50, 1, sim.Acquire, "B"), at(3000, 1, sim.Release, "B")),
	script("two names", 800,
		at(10, 0, sim.Acquire, "A"), other(50, 0, sim.Acquire, "B"), other(100, 1, sim.Acquire, "C"), at(150, 1, sim.Acquire, "D"),
		at(400, 0, sim.Release, "A"), other(500, 0, sim.Release, "B"), at(600, 1, sim.Release, "D"), other(700, 1, sim.Release, "C")),
	script("extended by hand while an extension is under way", 1300,
		at(10, 0, sim.Acquire, "A"), cut(300, 0, sim.CutRequests, 0), cut(301, 0, sim.CutRequests, 1), at(400, 0, sim.Extend, "A"), at(420, 0, sim.Extend, "A"),
		cut(450, 0, sim.Heal, 0), cut(451, 0, sim.Heal, 1), at(1200, 0, sim.Release, "A")),
	script("extended by hand", 900,
		at(10, 0, sim.Acquire, "A"), at(100, 0, sim.Extend, "A"), at(200, 0, sim.Extend, "A"), at(800, 0, sim.Release, "A")),
}

func script(name string, end int, steps ...sim.Step) sim.Script {
	return sim.Script{Name: name, Nodes: 3, Clients: 4, TTL: time.Second, NodeTimeout: 200 * time.Millisecond, MaxHold: time.Hour,
		Steps: steps, End: moment(end)}
}

func long(name string, end int, steps ...sim.Step) sim.Script {
	s := script(name, end, steps...)
	s.MaxHold = 2 * time.Second
	return s
}

func moment(ms int) time.Duration { return time.Duration(ms)*time.Millisecond + 400*time.Microsecond }

func at(ms, client int, do sim.Deed, lock string) sim.Step {
	return sim.Step{At: moment(ms), Client: client, Do: do, Lock: lock}
}

func other(ms, client int, do sim.Deed, lock string) sim.Step {
	return sim.Step{At: moment(ms), Client: client, Do: do, Lock: lock, Name: 2}
}

func cut(ms, client int, do sim.Deed, node int) sim.Step {
	return sim.Step{At: moment(ms), Client: client, Do: do, Node: node}
}
