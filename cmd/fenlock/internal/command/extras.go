//go:build linux || darwin || freebsd

package command

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/fenlock/fenlock"
)

// Extras is what fenlock-all has linked and fenlock has not.
type Extras struct {
	// Engines open a node by its URL, by the names that the table of engines has.
	Engines map[string]func(url string) (fenlock.Node, error)
	// Page listens for fenlock ui, and returns the address for people, and what serves until its
	// context ends and then closes all but the nodes. Its error is one of the usage.
	Page func(Page) (address string, serve func(context.Context) error, err error)
	// Metrics answers Prometheus at a listener, until end is called. Prometheus has to know the
	// token, unless that is empty. The name is that of the lock, or "" to tell none. The callback
	// is told why it has ended before.
	Metrics func(l net.Listener, token, name string, failed func(error)) (o fenlock.Observer, end func())
	// Demo plays scenes of fenlock demo.
	Demo func(context.Context, Show) error
	// DemoClient is a client process of a scene. Its error is one of the usage.
	DemoClient func(args []string, in io.Reader, out io.Writer) error
}

// Page is what fenlock ui shows, and to whom.
type Page struct {
	Nodes        []fenlock.Node
	Prefix       string        // of the names of the locks that are shown
	Listen       string        // the address
	Token        string        // what people have to know who look, "" for nothing
	Secret       bool          // the token is no part of the address
	AllowRelease bool          // they may break locks
	History      time.Duration // for how long it is kept what was seen
	Hosts        []string
	Log          func(format string, args ...any)
}

// Show is what fenlock demo plays.
type Show struct {
	Scenes []string // all, if there is none
	Client []string // the command of a client process
	Beat   time.Duration
	Out    io.Writer
	Colour bool
	Unseen func(error) // is told that Out takes no more
}

// extras are those of this program, nil in fenlock.
var extras *Extras

// link makes extras those of this program.
func link(linked *Extras) {
	extras = linked
	for i := range engines {
		if e := &engines[i]; linked != nil && linked.Engines[e.name] != nil {
			e.open = func(_ context.Context, raw, _ string) (fenlock.Node, error) { return linked.Engines[e.name](raw) }
		}
	}
}
