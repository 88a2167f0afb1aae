package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/groups"
)

// groupsResult is what it comes to that names are spread over several groups. It is for the whole,
// and for each server, whose work is what bounds a group.
type groupsResult struct {
	lockers, rounds int // lockers: for each group
	length          time.Duration
	rows            []groupsRow
}

// groupsRow is of so many groups of so many nodes. All times are of one cycle of the whole.
type groupsRow struct {
	nodes, groups  int
	rates          []float64       // cycles per second, of each round
	client, server []time.Duration // CPU time; server: of one of them
}

// groupCounts are the numbers of groups that take turns.
var groupCounts = []int{1, 2, 4}

func runGroups(ctx context.Context, b *bench, _ []contender) (*groupsResult, error) {
	r := &groupsResult{lockers: b.size.crowd, rounds: b.size.loads, length: b.size.load}
	for _, nodes := range []int{1, 3} {
		rows, err := r.measure(ctx, b, nodes)
		if err != nil {
			return nil, fmt.Errorf("groups of %d nodes: %w", nodes, err)
		}
		r.rows = append(r.rows, rows...)
	}
	return r, nil
}

// measure has one group, two and four take turns.
func (r *groupsResult) measure(ctx context.Context, b *bench, nodes int) ([]groupsRow, error) {
	all, err := b.on(ctx, nodes*slices.Max(groupCounts))
	if err != nil {
		return nil, err
	}
	t := &turns{}
	defer t.close()
	var rows []groupsRow
	var some []*bench
	for _, n := range groupCounts {
		of := *all
		of.servers = all.servers[:nodes*n]
		opened, err := openAll(ctx, &of, contender{name: "fenlock", open: openGroups(nodes)}, 1)
		if err != nil {
			return nil, err
		}
		t.names, t.clients = append(t.names, fmt.Sprint(n, " groups")), append(t.clients, opened)
		rows, some = append(rows, groupsRow{nodes: nodes, groups: n}), append(some, &of)
	}
	locks := names("groups", r.lockers*slices.Max(groupCounts))
	err = t.each(r.rounds+1, func(round, i int) error {
		if err := sleep(ctx, loadPause); err != nil {
			return err
		}
		c, err := some[i].measureCost(ctx, t.clients[i][0], locks[:r.lockers*rows[i].groups], r.length)
		if err != nil || round == 0 { // which connects, and loads scripts
			return err
		}
		row := &rows[i]
		row.rates = append(row.rates, c.rate)
		row.client, row.server = append(row.client, c.client), append(row.server, c.server)
		return nil
	})
	return rows, err
}

// openGroups opens Groups of so many nodes each. A single one is a group as well, so that what a
// name's hash costs is in all rows.
func openGroups(nodes int) func(b *bench) (client, error) {
	return func(b *bench) (client, error) {
		var c groups.Config
		for i, urls := 0, b.urls(); i < len(urls); i += nodes {
			l, err := newLocker(urls[i:i+nodes], b.ttl, fenlock.Observer{})
			if err != nil {
				return nil, err
			}
			c.Groups = append(c.Groups, groups.Group{ID: fmt.Sprint("group-", i/nodes), Locker: l})
		}
		g, err := groups.New(c)
		if err != nil {
			return nil, err
		}
		return ofLocks(func(ctx context.Context, name string) (*fenlock.Lock, error) { return g.Acquire(ctx, name) }, g), nil
	}
}

func (r *groupsResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf(
			"groups: acquire + release per second, with %d lockers for each group, that have a name each (fenlock only)",
			r.lockers),
		method: fmt.Sprintf("%d rounds of %v, in turns; × is the median of the ratios to one group in the same round, and in brackets the 10th and 90th percentile; CPU time per cycle, medians: getrusage of this process, used_cpu of the servers",
			r.rounds, r.length),
		header: []string{"nodes", "groups", "per second", "× one group", "client", "each server", "× one group"},
	}
	for i, row := range r.rows {
		one := r.rows[i-i%len(groupCounts)]
		t.row(fmt.Sprint(row.nodes), fmt.Sprint(row.groups), fmt.Sprintf("%.0f", median(row.rates)),
			spread(ratios(row.rates, one.rates)),
			micros(median(row.client)), fmt.Sprintf("%.1f µs", median(row.server).Seconds()*1e6),
			spread(ratios(row.server, one.server)))
	}
	t.note("The servers and the client share this machine's cores, and the work of a cycle is the same on any number of")
	t.note("groups: with few cores the rate cannot grow. That each server's share falls is what lets it grow where each has its own.")
	return t
}
