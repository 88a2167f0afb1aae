package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// floorClient is what a cycle costs at the least: fenlock's two scripts on the
// servers and nothing else. It is no lock: what is not answered as in the best case
// is an error, nothing expires in it or is given back, and a name is for one caller
// at a time.
type floorClient struct {
	pipeline *pipeline
	sketches sketches
	prefix   string // of its names: what another one's slowest server has yet to do must not meet it

	mu    sync.RWMutex
	names map[string]*floorName
}

// floorName is a name and its commands, which are made once.
type floorName struct {
	client           *floorClient
	call             *call
	acquire, release []byte
	proposal         []byte       // the part of acquire that changes
	giveBack         func() error // made once too
}

func majority(n int) int { return n/2 + 1 }
func all(n int) int      { return n }

func openFloor(need func(n int) int) func(b *bench) (client, error) {
	return func(b *bench) (client, error) {
		s, err := sketchCycle(b)
		if err != nil {
			return nil, fmt.Errorf("listening to fenlock: %w", err)
		}
		addresses := b.addresses()
		p, err := newPipeline(addresses, need(len(addresses)))
		if err != nil {
			return nil, err
		}
		return &floorClient{pipeline: p, sketches: s, prefix: fmt.Sprintf("floor:%08x:", rand.Uint32()), names: map[string]*floorName{}}, nil
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
	var at int
	n.acquire, at = c.sketches.acquire.command(c.prefix+name, holder)
	n.proposal = n.acquire[at : at+len(c.sketches.acquire.find(proposal))]
	n.release, _ = c.sketches.release.command(c.prefix+name, holder)
	n.giveBack = func() error { return c.pipeline.do(n.call, n.release) }
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
	strconv.AppendInt(n.proposal[:0], time.Now().UnixMicro(), 10)
	if err := c.pipeline.do(n.call, n.acquire); err != nil {
		return nil, err
	}
	return n.giveBack, nil
}

func (c *floorClient) close() { c.pipeline.close() }
