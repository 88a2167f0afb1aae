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

// capacityPoint is of one number of nodes. All times are per cycle.
type capacityPoint struct {
	nodes                int
	wall, client, server time.Duration // server: of one of them
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
	client, servers, err := b.cpu()
	if err != nil {
		return p, err
	}
	run, err := measureLoad(ctx, clients[0], locks, length)
	if err != nil {
		return p, err
	}
	if run.failures+run.hung > 0 {
		return p, fmt.Errorf("%d acquisitions or releases failed, %d lockers hung", run.failures, run.hung)
	}
	client2, servers2, err := b.cpu()
	if err != nil {
		return p, err
	}
	cycles := time.Duration(run.rate * length.Seconds())
	n := time.Duration(len(b.servers))
	return capacityPoint{len(b.servers), time.Duration(float64(time.Second) / run.rate), (client2 - client) / cycles,
		(servers2 - servers) / cycles / n}, nil
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
		t.row(fmt.Sprint(p.nodes), micros(p.wall), micros(p.client), micros(a+perNode*time.Duration(p.nodes)),
			micros(p.server))
	}
	t.note("client: %s + %s for each node", micros(a), micros(perNode))
	return t
}
