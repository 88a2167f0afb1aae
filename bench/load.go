package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Throughput is how many locks one process takes and releases per second when nothing stands in its
// way. Each of its lockers has a name of its own, and all of them share one client.

// setting is what throughput is measured with.
type setting struct{ nodes, lockers int }

// loadResult is of load, single and nodes.
type loadResult struct {
	*turns   // of all settings; the clients are of one
	settings []setting
	rates    map[string][][]float64 // by contender and setting: cycles per second, of each round
	failures map[string]int         // of acquire or release
	hung     map[string]int         // lockers, of all rounds
	table    func(r *loadResult, b *bench) *table
}

// loadPause is between two measurements.
const loadPause = 30 * time.Millisecond

const (
	// maxFailures is how often in a row a locker fails before it gives up.
	maxFailures = 10
	// hanging is how long a locker may take for its last cycle. No other client is in its way;
	// valkeylock does hang there now and then, however.
	hanging = 3 * time.Second
)

// loadRun is one measurement.
type loadRun struct {
	cycles   float64 // of all lockers
	rate     float64 // cycles per second, from the start until the last locker has released
	failures int     // of acquire or release
	hung     int     // lockers that did not end
}

// measureLoad returns errGaveUp if a locker is still in acquire or release long after the end.
func measureLoad(ctx context.Context, c client, names []string, length time.Duration) (loadRun, error) {
	var (
		wait  sync.WaitGroup
		over  atomic.Bool
		mu    sync.Mutex // guards what follows
		run   loadRun
		total int
		first error
	)
	limit, cancel := limited(ctx, length+hanging)
	defer cancel()
	start := time.Now()
	for _, name := range names {
		wait.Go(func() {
			cycles, failed, row := 0, 0, 0
			for !over.Load() && row < maxFailures {
				release, err := c.acquire(limit, name)
				if err == nil {
					err = release()
				}
				if err == nil {
					cycles, row = cycles+1, 0
					continue
				}
				mu.Lock()
				if limit.Err() != nil {
					run.hung++
				} else {
					failed, row = failed+1, row+1
				}
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
			mu.Lock()
			total, run.failures = total+cycles, run.failures+failed
			mu.Unlock()
		})
	}
	timer := time.AfterFunc(length, func() { over.Store(true) })
	defer timer.Stop()
	if !returned(limit, wait.Wait) {
		return loadRun{}, errGaveUp
	}
	elapsed := time.Since(start)
	if run.hung > 0 { // the others ended about then, and their cycles count
		elapsed = length
	}
	run.cycles, run.rate = float64(total), float64(total)/elapsed.Seconds()
	if total == 0 {
		return run, first
	}
	return run, ctx.Err()
}

func runThroughput(ctx context.Context, b *bench, who []contender, table func(*loadResult, *bench) *table,
	settings ...setting) (*loadResult, error) {
	r := &loadResult{turns: &turns{gaveUp: map[string]bool{}}, settings: settings, table: table,
		rates: map[string][][]float64{}, failures: map[string]int{}, hung: map[string]int{}}
	for _, c := range who {
		r.names = append(r.names, c.name)
		r.rates[c.name] = make([][]float64, len(settings))
	}
	for i, s := range settings {
		if err := r.measure(ctx, b, who, i, s); err != nil {
			return nil, fmt.Errorf("%d lockers on %d nodes: %w", s.lockers, s.nodes, err)
		}
	}
	return r, nil
}

// names returns names for lockers of a figure.
func names(figure string, lockers int) []string {
	all := make([]string, lockers)
	for i := range all {
		all[i] = fmt.Sprintf("bench:%s:%d", figure, i)
	}
	return all
}

// measure does the rounds of one setting.
func (r *loadResult) measure(ctx context.Context, b *bench, who []contender, at int, s setting) error {
	some, err := b.on(ctx, s.nodes)
	if err != nil {
		return err
	}
	t, err := some.takeTurns(ctx, who, 1)
	if err != nil {
		return err
	}
	defer t.close()
	t.gaveUp = r.gaveUp
	locks := names("load", s.lockers)
	return t.each(b.size.loads+1, func(round, i int) error {
		// What a majority did not wait for is not to be the next one's burden.
		if err := sleep(ctx, loadPause); err != nil {
			return err
		}
		run, err := measureLoad(ctx, t.clients[i][0], locks, b.size.load)
		if err != nil {
			return err
		}
		if name := t.names[i]; round > 0 { // the first one opens connections
			r.rates[name][at] = append(r.rates[name][at], run.rate)
			r.failures[name] += run.failures
			r.hung[name] += run.hung
		}
		return nil
	})
}

func runLoad(ctx context.Context, b *bench, who []contender) (*loadResult, error) {
	var settings []setting
	for _, n := range b.size.crowds {
		settings = append(settings, setting{len(b.servers), n})
	}
	return runThroughput(ctx, b, who, (*loadResult).loadTable, settings...)
}

func runSingle(ctx context.Context, b *bench, who []contender) (*loadResult, error) {
	return runThroughput(ctx, b, who, (*loadResult).singleTable, setting{1, b.size.crowd})
}

func runNodes(ctx context.Context, b *bench, who []contender) (*loadResult, error) {
	var settings []setting
	for _, n := range b.size.nodes {
		settings = append(settings, setting{n, b.size.crowd})
	}
	return runThroughput(ctx, b, who, (*loadResult).nodesTable, settings...)
}

func (r *loadResult) report(b *bench) *table { return r.table(r, b) }

// ours returns by how much fenlock is ahead of a contender, round by round.
func (r *loadResult) ours(name string, at int) []float64 {
	if r.rates["fenlock"] == nil || r.rates[name] == nil {
		return nil
	}
	return ratios(r.rates["fenlock"][at], r.rates[name][at])
}

// rows fills a table with everything, the first column being what changes.
func (r *loadResult) rows(b *bench, t *table, what string, of func(setting) int) {
	t.method = fmt.Sprintf("%d rounds of %v each, interleaved; one process, one client, a name for each locker; TTL %v, and no persistence, for all; ratios are of one round, their median (p10–p90). "+
		"go-redis has its default pool (10 connections per core and server), valkey-go its default pipelines",
		b.size.loads, b.size.load, b.theirTTL())
	t.header = []string{what, "", "cycles/s, median", "p10", "p90", "per cycle", "fenlock ÷ it"}
	for i, s := range r.settings {
		for _, name := range r.names {
			v := r.rates[name][i]
			if len(v) == 0 {
				t.row(fmt.Sprint(of(s)), name, "-", "-", "-", "-", "-")
				continue
			}
			t.row(fmt.Sprint(of(s)), name, fmt.Sprintf("%.0f", median(v)), fmt.Sprintf("%.0f", percentile(v, 0.1)),
				fmt.Sprintf("%.0f", percentile(v, 0.9)),
				micros(time.Duration(float64(time.Second)/median(v))), spread(r.ours(name, i)))
		}
	}
	for _, name := range r.names {
		if n := r.hung[name]; n > 0 {
			t.note("%s: %d times, in all rounds together, a locker hung although its lock was free: it did not end within %v; its round counts without that time", name, n, hanging)
		}
		if r.gaveUp[name] {
			t.note("%s: a locker was still in acquire or release %v after that; left out from then on", name, grace)
		}
		if n := r.failures[name]; n > 0 {
			t.note("%s: %d acquisitions or releases failed; they are not counted as cycles", name, n)
		}
	}
}

// panel is the same as a drawing.
func (r *loadResult) panel(title, what string, of func(setting) int) *panel {
	p := &panel{title: title, across: what, up: "cycles per second"}
	for _, name := range r.names {
		s := series{name: name}
		for i, set := range r.settings {
			if v := r.rates[name][i]; len(v) > 0 {
				s.points = append(s.points, point{float64(of(set)), median(v)})
			}
		}
		p.series = append(p.series, s)
	}
	return p
}

func (r *loadResult) loadTable(b *bench) *table {
	t := &table{title: fmt.Sprintf(
		"load: lockers of one process on %d nodes, each acquires and releases a lock of its own", len(b.servers))}
	lockers := func(s setting) int { return s.lockers }
	r.rows(b, t, "lockers", lockers)
	t.panel = r.panel(fmt.Sprintf("%d nodes", len(b.servers)), "lockers", lockers)
	t.panel.logarithmic = true
	return t
}

func (r *loadResult) singleTable(b *bench) *table {
	t := &table{title: "single: lockers of one process on one node, each acquires and releases a lock of its own"}
	r.rows(b, t, "lockers", func(s setting) int { return s.lockers })
	return t
}

func (r *loadResult) nodesTable(b *bench) *table {
	t := &table{title: fmt.Sprintf("nodes: %d lockers of one process, each acquires and releases a lock of its own",
		b.size.crowd)}
	nodes := func(s setting) int { return s.nodes }
	r.rows(b, t, "nodes", nodes)
	t.panel = r.panel(fmt.Sprintf("%d lockers", b.size.crowd), "nodes", nodes)
	return t
}
