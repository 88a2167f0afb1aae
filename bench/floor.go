package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// floorClient is what a cycle costs at the least: fenlock's two scripts on the servers and nothing
// else. It is no lock. What is not answered as in the best case is an error. Nothing expires in it
// or is released, and a name is for one caller at a time.
type floorClient struct {
	pipeline *pipeline
	sketches sketches
	known    sketch // of acquire, where the client looks at the server
	prefix   string // of its names: what another one's slowest server has yet to do must not meet it
	active   atomic.Int32

	mu    sync.RWMutex
	names map[string]*floorName
}

// floorName is a name and its commands, which are made once.
type floorName struct {
	client   *floorClient
	call     *call
	acquires [2][]byte // alone; among others
	release  []byte
	proposal [2][]byte    // the part of acquire that changes
	giveBack func() error // made once too
}

// together is the number of cycles under way from which on the scripts need not look at the server.
// Then fenlock asks once for many, and the floor not at all.
const together = 3

func majority(n int) int { return n/2 + 1 }
func all(n int) int      { return n }

func openFloor(need func(n int) int) func(b *bench) (client, error) {
	return func(b *bench) (client, error) {
		s, err := sketchCycle(b)
		if err != nil {
			return nil, fmt.Errorf("listening to fenlock: %w", err)
		}
		addresses := b.addresses()
		known, err := s.acquire.knowing()
		if err != nil {
			return nil, err
		}
		for _, server := range b.servers {
			server.Do("HSET", floorRegisters, "admitted", floorMark, "format", testserver.Format, "maxttl",
				strconv.FormatInt(b.ttl.Milliseconds(), 10))
		}
		p, err := newPipeline(addresses, need(len(addresses)))
		if err != nil {
			return nil, err
		}
		return &floorClient{pipeline: p, sketches: s, known: known, prefix: fmt.Sprintf("floor:%08x:", rand.Uint32()),
			names: map[string]*floorName{}}, nil
	}
}

func (c *floorClient) name(name string) *floorName {
	c.mu.RLock()
	n := c.names[name]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n = &floorName{client: c, call: c.pipeline.newCall()}
	holder := c.sketches.acquire.newHolder()
	for i, s := range []sketch{c.sketches.acquire, c.known} {
		var at int
		n.acquires[i], at = s.command(c.prefix+name, holder)
		n.proposal[i] = n.acquires[i][at : at+len(s.find(proposal))]
	}
	n.release, _ = c.sketches.release.command(c.prefix+name, holder)
	n.giveBack = func() error {
		defer c.active.Add(-1)
		return c.pipeline.do(n.call, n.release)
	}
	c.names[name] = n
	return n
}

func (c *floorClient) acquire(ctx context.Context, name string) (func() error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := c.name(name)
	// As many digits as were recorded: the clock does not get another one before
	// the year 2286.
	form := 0
	if c.active.Add(1) >= together {
		form = 1
	}
	strconv.AppendInt(n.proposal[form][:0], time.Now().UnixMicro(), 10)
	if err := c.pipeline.do(n.call, n.acquires[form]); err != nil {
		c.active.Add(-1)
		return nil, err
	}
	return n.giveBack, nil
}

func (c *floorClient) close() { c.pipeline.close() }
