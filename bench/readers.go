package main

import (
	"context"
	"fmt"
	"slices"

	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
)

// readers is how a name is divided between those who share it and those who want it alone. All take
// and release it as fast as they can.

// How many there are of each, in the proportion of 4 to 1.
const (
	readers = 16
	writers = 4
)

// readersWho are those with a lock for readers and writers. Of each, opens has how it is opened.
var (
	readersWho = []contender{fenlocks, etcdRW}
	etcdRW     = contender{etcds.name, etcds.what, openEtcdRW(false)}
	openReader = map[string]func(b *bench) (client, error){fenlocks.name: openShared, etcds.name: openEtcdRW(true)}
)

// readersResult has the readers first.
type readersResult struct {
	*loopResult
	size int // of both
}

func runReaders(ctx context.Context, b *bench, who []contender) (*readersResult, error) {
	t := &turns{gaveUp: map[string]bool{}}
	defer t.close()
	for _, c := range who {
		reader := c
		reader.open = openReader[c.name]
		for _, some := range []struct {
			contender
			n int
		}{{reader, readers}, {c, writers}} {
			opened, err := openAll(ctx, b, some.contender, some.n)
			if err != nil {
				return nil, err
			}
			if len(t.names) == 0 || t.names[len(t.names)-1] != c.name {
				t.names, t.clients = append(t.names, c.name), append(t.clients, nil)
			}
			last := len(t.clients) - 1
			t.clients[last] = append(t.clients[last], opened...)
		}
	}
	r := &readersResult{&loopResult{turns: t, runs: map[string]loopRun{}}, readers + writers}
	return r, r.measure(ctx, b, "bench:readers")
}

// shares returns what part of its fair share each has, the least of the readers and the least of
// the writers. It is 1 if all are served as often.
func (r *readersResult) shares(name string) (reader, writer float64) {
	run := r.runs[name]
	if run.total() == 0 {
		return 0, 0
	}
	fair := float64(run.total()) / float64(r.size)
	return float64(slices.Min(run.counts[:readers])) / fair, float64(slices.Min(run.counts[readers:])) / fair
}

func (r *readersResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("readers: %d readers and %d writers acquire and release one name in a tight loop", readers,
			writers),
		method: fmt.Sprintf("%v each, in %d slices, interleaved; a fair share is the mean of all acquisitions by client",
			b.size.loop, loopSlices),
		header: []string{"", "readers/s", "writers/s", "least reader ÷ fair", "least writer ÷ fair", "longest gap",
			"failures"},
	}
	for _, name := range r.names {
		run := r.runs[name]
		if len(run.counts) == 0 {
			t.row(name, "-", "-", "-", "-", "-", "-")
			continue
		}
		n := [2]int{}
		for i, count := range run.counts {
			n[min(i/readers, 1)] += count
		}
		reader, writer := r.shares(name)
		t.row(name, fmt.Sprintf("%.0f", run.perSecond(n[0])), fmt.Sprintf("%.0f", run.perSecond(n[1])),
			fmt.Sprintf("%.2f", reader), fmt.Sprintf("%.2f", writer), millis(run.longest), fmt.Sprint(run.failures))
		if run.stuck {
			t.note("%s: a locker was still in acquire or release %v after a slice; left out from then on", name, grace)
		}
	}
	return t
}

// openEtcdRW is openEtcd with the RWMutex of etcd's recipes, whose calls no context ends.
func openEtcdRW(reads bool) func(b *bench) (client, error) {
	return func(b *bench) (client, error) {
		s, end, err := openSession(b)
		if err != nil {
			return nil, err
		}
		return library{func(_ context.Context, name string) (func() error, error) {
			m := recipe.NewRWMutex(s, "/bench-rw/"+name)
			if reads {
				return m.RUnlock, m.RLock()
			}
			return m.Unlock, m.Lock()
		}, end}, nil
	}
}
