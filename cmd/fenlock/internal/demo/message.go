//go:build linux || darwin || freebsd

package demo

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// order is what a scene tells a client process to do, a line of JSON. The client does
// one after the other, and answers each with a report.
type order struct {
	Do   string `json:"do"`
	Name string `json:"name,omitempty"` // of the lock

	// Of open: the group, and what the others are told about this client.
	Nodes  []string      `json:"nodes,omitempty"` // URLs
	Label  string        `json:"label,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"`
	MaxTTL time.Duration `json:"max_ttl,omitempty"`

	// Of read and write.
	URL   string `json:"url,omitempty"`
	Value int    `json:"value,omitempty"`
}

// What a client can do.
const (
	doOpen    = "open"
	doAcquire = "acquire" // wait for the lock
	doTry     = "try"     // take it if it is free
	doExtend  = "extend"
	doCheck   = "check" // is it still held?
	doRelease = "release"
	doRead    = "read"
	doWrite   = "write" // with the lock's token
)

// report is what a client says, a line of JSON.
type report struct {
	What heard  `json:"what"`
	Text string `json:"text,omitempty"` // an error

	Token  fence.Token   `json:"token,omitempty"`
	Waited time.Duration `json:"waited,omitempty"`
	Left   time.Duration `json:"left,omitempty"` // validity
	Ahead  int           `json:"ahead,omitempty"`
	Value  int           `json:"value,omitempty"`
	// When is the machine's time, in nanoseconds: when the lock was had, or, of released,
	// when giving it back began.
	When int64 `json:"when,omitempty"`
}

// heard is the kind of a report.
type heard string

const (
	opened   heard = "opened"
	waiting  heard = "waiting" // while it waits for the lock
	acquired heard = "acquired"
	refused  heard = "refused"  // somebody else has the lock
	noQuorum heard = "noquorum" // too few nodes answered
	extended heard = "extended"
	checked  heard = "checked"
	released heard = "released"
	lost     heard = "lost"
	unwell   heard = "node" // a node does not work, or works again
	got      heard = "got"
	wrote    heard = "wrote"
	stale    heard = "stale"  // the resource refused the write
	failed   heard = "failed" // anything else
)

// unasked reports whether it may come at any time.
func (h heard) unasked() bool { return h == waiting || h == lost || h == unwell }
