//go:build linux || darwin || freebsd

package demo

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Event is one thing that happened in a scene, in the order in which it is to be
// shown. As JSON it is what the page gets.
type Event struct {
	At    time.Duration `json:"at"`    // since the scene began, in nanoseconds
	Scene string        `json:"scene"` // its name
	// Actor is who did it: "client 1", "s3" (a server), "account", "demo" (who plays).
	// Empty where the narrator speaks.
	Actor string `json:"actor,omitempty"`
	What  What   `json:"what"`
	// Whom it was done to, if that is not the actor: servers that were started or killed, a
	// client that was stopped.
	Whom []string `json:"whom,omitempty"`
	// Text is one line for people. Without one an event is no news, and for those who draw:
	// where a lock's time ends.
	Text string `json:"text,omitempty"`
	// Token is of what an actor has got or brought, 0 without one.
	Token fence.Token `json:"token,omitempty"`
	// Value is what was read, written or refused, 0 without one.
	Value int `json:"value,omitempty"`
}

// What is the kind of an event, for programs.
type What string

// The kinds of events.
const (
	Begin   What = "begin"   // a scene begins; Text is its title
	Tell    What = "tell"    // the narrator explains
	Does    What = "does"    // anything that is none of the others
	Started What = "started" // a server, for the first time or again
	Killed  What = "killed"  // a server
	Waits   What = "waits"   // a client, for the lock
	Holds   What = "holds"   // a client has the lock from now on
	Extends What = "extends" // a client has the lock for longer
	Refused What = "refused" // a client does not get the lock, or an extension of it
	Gives   What = "gives"   // a client has given the lock back
	Lost    What = "lost"    // a client is told that it does not have the lock any more
	Stopped What = "stopped" // a process (SIGSTOP)
	GoesOn  What = "goes on" // a process (SIGCONT)
	Wrote   What = "wrote"   // the resource has a new value
	Stale   What = "stale"   // the resource has refused a write
	Harm    What = "harm"    // something that must not be
	Checked What = "checked" // the demo has made sure of what it says
	Shown   What = "shown"   // what the scene has shown; its last but one
	Promise What = "promise" // which promise of docs/promises.md it was about; its last
	Failed  What = "failed"  // it went another way than told; its last
	Lacks   What = "lacks"   // it could not be played; its last but for Begin
)
