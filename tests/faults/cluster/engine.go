//go:build linux

package cluster

import (
	"slices"
	"testing"
	"time"
)

// Engine is a kind of server that can be a node.
type Engine struct {
	Name string

	// TTL is the longest lease that its servers are tried with.
	TTL time.Duration

	// Lingers is for how long after its TTL a lease may be there, of a client that was
	// killed.
	Lingers time.Duration

	// WallClock: leases end by the server's wall clock.
	WallClock bool

	// Crash is what a crash costs a server, Start what each start does. nil: nothing.
	Crash, Start func(Persistence) Loss

	// Alone: its nodes lease a name to one holder only (they are no node.Sharer).
	Alone bool

	// preloads: the server's clock can be moved by a library that it preloads.
	preloads bool

	// start starts a server with more environment variables. What fails is the test's
	// end, or an error of testserver.Try.
	start func(t testing.TB, p Persistence, environment []string) Server

	// prepare makes what a server needs before its first use.
	prepare func(m *Member, p Persistence) error

	// url is how a client finds the node of a number: a server, by way of another
	// address.
	url func(server, through string, node int) string

	// database is the driver's name and the address for the harness's own statements; nil
	// if there are none.
	database func(server string) (driver, source string)

	// endSessions is a statement that ends the connections of all others.
	endSessions string

	// readOnly are the statements that have the server refuse to write, or write again.
	readOnly func(on bool) []string

	// What is asked of a server past the proxy. nil: what an operator would ask of any
	// engine's node.
	admitted  func(m *Member) bool
	leftovers func(m *Member) ([]Leftover, error)
	settle    func(m *Member, s Server) error
	normal    func(m *Member) error
	version   func(m *Member) (string, error)
}

// Loss is what a server has lost.
type Loss int

// From the least to the most.
const (
	Nothing   Loss = iota
	Leases         // it does not vote until all have ended; its registers are there
	Registers      // these as well
)

// Server is a process that is a server. It can be started again after its end. What
// fails in it fails the test that started it.
type Server interface {
	Addr() string
	Pid() int // 0 while it is down
	Kill()    // as a crash would
	Stop()    // as an operator does
	Restart()
	Pause()
	Resume()
}

// Group is of which engines the servers of a cluster are.
type Group struct {
	Name    string
	Engines []*Engine // in turn
}

// Groups are what a campaign can run on, first the one that it does by default.
var Groups = []Group{
	{"valkey", []*Engine{Valkey}},
	{"postgres", []*Engine{Postgres}},
	{"mysql", []*Engine{MySQL}},
	{"etcd", []*Engine{Etcd}},
	{"zookeeper", []*Engine{ZooKeeper}},
	{"mixed", []*Engine{Valkey, Postgres}},
}

// On returns the group of a name.
func On(name string) (Group, bool) {
	i := slices.IndexFunc(Groups, func(g Group) bool { return g.Name == name })
	if i < 0 {
		return Group{}, false
	}
	return Groups[i], true
}

// At returns the engine of a server, from 0.
func (g Group) At(i int) *Engine { return g.Engines[i%len(g.Engines)] }

// TTL is the longest lease of the group. A server that lost its memory is out for a
// little more than twice as long.
func (g Group) TTL() (longest time.Duration) {
	for _, e := range g.Engines {
		longest = max(longest, e.TTL)
	}
	return longest
}

// Lingers is the longest of the engines'.
func (g Group) Lingers() (longest time.Duration) {
	for _, e := range g.Engines {
		longest = max(longest, e.Lingers)
	}
	return longest
}
