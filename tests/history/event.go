package history

import "time"

// Event is one thing that happened.
//
// Until comes from a clock that was read before the lock was asked how much
// validity remains, so it never claims too much. One that is not later than At
// claims nothing: a lock that has ended, however long ago, also has 0 left.
type Event struct {
	At   int64 `json:"at"` // ns of CLOCK_BOOTTIME, which all processes of a machine share
	Kind Kind  `json:"kind"`
	// number of the client process; a client that was killed and started again gets another
	Client int `json:"client,omitempty"`
	// of an acquisition within its client, from 1: all events of one tenure share it
	Op   int    `json:"op,omitempty"`
	Name string `json:"name,omitempty"`
	// Shared: for Acquire, others may share the name. For ReadValue and Refused, the guard was asked
	// for a read beside others'.
	Shared bool   `json:"shared,omitempty"`
	Token  uint64 `json:"token,omitempty"`
	Until  int64  `json:"until,omitempty"`  // end of validity, as At; for Absent: see there
	Value  int    `json:"value,omitempty"`  // what was read; for Wrote: the new value; for Closed: goroutines left over
	Base   int    `json:"base,omitempty"`   // for Wrote: what its writer had read
	Node   int    `json:"node,omitempty"`   // the server, from 1; for a fault: 0 for none or several
	Fault  string `json:"fault,omitempty"`  // kind of fault
	Breaks string `json:"breaks,omitempty"` // the declared assumption that the fault breaks; "" for none
	Text   string `json:"text,omitempty"`   // error or detail
}

// Kind says what happened.
type Kind string

// Written by a client process.
const (
	Acquire      Kind = "acquire"      // before the call
	Acquired     Kind = "acquired"     // after it: Token, Until
	Failed       Kind = "failed"       // after it: Text
	Holds        Kind = "holds"        // while held: a fresh Until that never claims too much
	Extend       Kind = "extend"       // before the call
	Extended     Kind = "extended"     // after it: Until
	ExtendFailed Kind = "extendfailed" // after it: Text
	Ended        Kind = "ended"        // Lock.Context is done: Text says why
	Downgrade    Kind = "downgrade"    // before the call: from here on others may share the name
	Downgraded   Kind = "downgraded"   // after it: Text is the error, "" for none
	Release      Kind = "release"      // before the call
	Released     Kind = "released"     // after it: Text is the error, "" for none
	Closed       Kind = "closed"       // Locker.Close has returned: Value
	// Node did not answer the client in time, does not vote, or has another client's lease at a name
	// that the client holds
	Missed Kind = "missed"
	// the leader that the client believes in: Token is the term, 0 for none, and Text the leader's
	// label
	Follows Kind = "follows"
	Absent  Kind = "absent" // the client did nothing until Until: it was stopped, or had no processor
)

// Written by the resource, in the order in which it did them. Client and Op are
// those of the acquisition whose token was used.
const (
	ReadValue Kind = "read"    // Token, Value
	Wrote     Kind = "wrote"   // Token, Base, Value
	Refused   Kind = "refused" // the guard said that Token is stale
)

// Written by the runner. A fault is noted before it strikes, and healed once it is
// over. One that strikes at moments (a step of a clock) is noted before and after
// each. The Text of healed says why a fault could not be injected after all.
const (
	Fault    Kind = "fault"    // a fault begins to strike: Fault, Node, Breaks
	Healed   Kind = "healed"   // it is over: Fault, Node
	Quiet    Kind = "quiet"    // from here on nothing fails
	Leftover Kind = "leftover" // a lease that is still on a server at the end: Node, Name, Text
	End      Kind = "end"
)

// Header is the first line of a history: how it was made.
type Header struct {
	Seed    uint64 `json:"seed"`
	Library string `json:"library"` // "fenlock", "redsync" or "redislock"
	// what the clients use: "shared", "several", "lead"; "" for plain locks
	Locks       string        `json:"locks,omitempty"`
	Server      string        `json:"server"` // "Valkey 8.0.1"
	Nodes       int           `json:"nodes"`
	Clients     int           `json:"clients"` // that are alive at a time: numbered from 1
	Names       []string      `json:"names"`
	TTL         time.Duration `json:"ttl"`
	MaxTTL      time.Duration `json:"max_ttl"`
	Persistence string        `json:"persistence"`
	Command     string        `json:"command"` // the line that runs it again
	// the clients tell what they missed, so that healing can be checked
	Watched bool        `json:"watched,omitempty"`
	Pairs   [][2]string `json:"pairs,omitempty"` // kinds of fault that were injected together
}

// Tokens reports whether the library has fencing tokens.
func (h Header) Tokens() bool { return h.Library == "fenlock" }

// History is what happened in one run. Events are in the order of At.
type History struct {
	Header Header
	Events []Event
}
