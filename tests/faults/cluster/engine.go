//go:build linux

package cluster

import (
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

	// Local: a node is a file that the clients share. There is no server that could end, and no
	// network.
	Local bool

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

	// drop are the statements that remove fenlock's tables with all that is in them.
	drop []string

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

// Persistence is what a server keeps on disk.
type Persistence string

// The kinds of persistence.
const (
	Always   Persistence = "always"   // each write is on disk before it is answered
	Everysec Persistence = "everysec" // a crash costs the last second
	Off      Persistence = "off"      // a crash costs everything, or what the engine does not keep whatever it is told
)

// TTL is the longest lease of most groups.
const TTL = time.Second

// Leftover is a lease that is still on a server.
type Leftover struct {
	Node int // from 0
	Name string
	Text string // whose, and for how long
}
