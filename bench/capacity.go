package main

import (
	"context"
	"fmt"
	"time"
)

// capacity is how much work an acquisition and its release are, for the client and
// for a server, at full load. It is what a group is sized by: docs/performance.md.
type capacityResult struct {
	lockers int
	points  []capacityPoint
}

// capacityPoint is of one number of nodes.
type capacityPoint struct {
	nodes int
	cost
}

func runCapacity(ctx context.Context, b *bench, _ []contender) (*capacityResult, error) {
	r := &capacityResult{lockers: b.size.crowd}
	locks := names("capacity", r.lockers)
	for _, n := range b.size.nodes {
		some, err := b.on(ctx, n)
		if err != nil {
			return nil, err
		}
		p, err := measureCapacity(ctx, some, locks, b.size.load*time.Duration(b.size.loads)/4)
		if err != nil {
			return nil, fmt.Errorf("%d nodes: %w", n, err)
		}
		r.points = append(r.points, p)
	}
	return r, nil
}

func measureCapacity(ctx context.Context, b *bench, locks []string, length time.Duration) (p capacityPoint, err error) {
	clients, err := openAll(ctx, b, fenlocks, 1)
	if err != nil {
		return p, err
	}
	defer closeAll(clients)
	c, err := b.measureCost(ctx, clients[0], locks, length)
	return capacityPoint{len(b.servers), c}, err
}

// cost is what a cycle costs at full load.
type cost struct {
	rate           float64       // cycles per second
	client, server time.Duration // CPU time; server: of one of them
}

func (b *bench) measureCost(ctx context.Context, c client, locks []string, length time.Duration) (of cost, err error) {
	client, servers, err := b.cpu()
	if err != nil {
		return of, err
	}
	run, err := measureLoad(ctx, c, locks, length)
	if err == nil && run.failures+run.hung > 0 {
		err = fmt.Errorf("%d acquisitions or releases failed, %d lockers hung", run.failures, run.hung)
	}
	if err != nil {
		return of, err
	}
	client2, servers2, err := b.cpu()
	each := func(d time.Duration) time.Duration { return time.Duration(float64(d) / run.cycles) }
	return cost{run.rate, each(client2 - client), each(servers2-servers) / time.Duration(len(b.servers))}, err
}

// line is the client's work as a + b × nodes, by the first point and the last.
func (r *capacityResult) line() (a, perNode time.Duration) {
	first, last := r.points[0], r.points[len(r.points)-1]
	if last.nodes == first.nodes {
		return 0, first.client / time.Duration(first.nodes)
	}
	perNode = (last.client - first.client) / time.Duration(last.nodes-first.nodes)
	return first.client - perNode*time.Duration(first.nodes), perNode
}

func (r *capacityResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf(
			"capacity: what acquire and release cost in CPU time, with %d lockers that have a name each (fenlock only)",
			r.lockers),
		method: fmt.Sprintf("%v each; getrusage of this process, and used_cpu of the servers; the client by the formula is a line through its first and its last row",
			b.size.load*time.Duration(b.size.loads)/4),
		header: []string{"nodes", "per cycle", "client", "by the formula", "each server"},
	}
	a, perNode := r.line()
	for _, p := range r.points {
		t.row(fmt.Sprint(p.nodes), micros(time.Duration(float64(time.Second)/p.rate)), micros(p.client),
			micros(a+perNode*time.Duration(p.nodes)), micros(p.server))
	}
	t.note("client: %s + %s for each node", micros(a), micros(perNode))
	return t
}
