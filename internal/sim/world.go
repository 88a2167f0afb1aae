package sim

import (
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// world is everything in one run.
type world struct {
	run
	rules   rules
	nodes   []*server
	clients []*client
	users   [][]*user // of each client
	guarded guarded

	stallAgain time.Duration // no stall before
	remains    remains
}

// add adds a client, which has not begun.
func (w *world) add(clock clock) *client {
	c := &client{process: newProcess(&w.run, &w.rules.processRules, w.nodes, len(w.clients), clock), all: &w.clients}
	c.shellRules = clientRules{c: c, rules: &w.rules.lockRules}
	w.clients = append(w.clients, c)
	return c
}

func (w *world) someClient() *client { return w.clients[w.rng.IntN(len(w.clients))] }
func (w *world) someNode() *server   { return w.nodes[w.rng.IntN(len(w.nodes))] }

func (w *world) all() core.Set { return core.Set(1)<<len(w.nodes) - 1 }

func (w *world) majority() (nodes core.Set) {
	for _, i := range w.rng.Perm(len(w.nodes))[:core.Quorum(len(w.nodes))] {
		nodes = nodes.With(i)
	}
	return nodes
}

// shortest returns the shortest TTL of a client.
func (w *world) shortest() time.Duration {
	d := w.maxTTL
	for _, c := range w.clients {
		d = min(d, c.ttl)
	}
	return d
}
