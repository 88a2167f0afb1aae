package node

import (
	"context"
	"fmt"
	"time"
)

// Examiner is an engine that can say how its store does, for people that have to find out why locks
// do not work.
type Examiner interface {
	// Examine looks at the store, and changes nothing there: it admits no server,
	// records nothing, and promises nothing. What it reads is bounded, so that a store
	// with millions of entries is not held up.
	//
	// The error is why the node cannot be used: it matches ErrMisconfigured if waiting does
	// not help. A store that answers and only has to wait until it may vote is no error.
	// What was found out is returned with the error too.
	Examine(ctx context.Context, look Look) (Examination, error)
}

// Look says how closely to look.
type Look struct {
	// MaxTTL is the longest lease of the group, for a store that has none recorded. 0 if
	// the caller does not know.
	MaxTTL time.Duration
	// Thorough has entries and registers looked at too. That takes some hundred requests,
	// of which none is long.
	Thorough bool
}

// Examination is what a store says of itself. What an engine does not know, or what the
// store did not say, is the zero value.
type Examination struct {
	Product string // "Valkey", "Redis", "file"
	Version string
	Server  string // identifies the store: two nodes with the same one are one. It is no secret
	Member  string // what clients call this node when they record the members of its group
	Role    string // "primary", "replica"
	Address string // of the other end of the connection: a network address without a port
	Uptime  time.Duration

	RoundTrip time.Duration // the shortest of a few
	Clock     ClockReading

	// Admitted: the node votes. Otherwise Why says why not, and Wait for how long still:
	// 0 if it may be admitted by the next request. Rebuild: before that, its
	// registers have to be read from other nodes (node/rebuild), with what follows.
	Admitted  bool
	Why       string
	Wait      time.Duration
	Rebuild   bool
	Memory    string // as in Registers
	Empty     []string
	Untouched bool // as in rebuild.Self

	// What the store has recorded of the group. No members: nothing is recorded, or the
	// members are not compared.
	MaxTTL  time.Duration
	Members []string

	Findings []Finding
}

// ClockReading is what the wall clock of a store showed, and what this machine's showed at the same
// moment, within half a round trip.
type ClockReading struct {
	Store time.Time // zero: not known, or it has no clock of its own
	Here  time.Time // with a monotonic reading, so that two of them tell how much time has passed
	// Within is by how much Store may be wrong beside the round trip, where a store tells whole
	// seconds.
	Within time.Duration
}

// Finding is something that a person should know of a node, or of a group.
type Finding struct {
	Check    string // what was looked at: a stable word, for programs
	Severity Severity
	Reason   string // what was found and why it matters, one sentence or two
	Advice   string // what to do, in the imperative. Empty if there is nothing to do
}

// Severity is how much a finding matters.
type Severity uint8

// The severities.
const (
	Note    Severity = iota // good to know; nothing has to be done
	Warning                 // it works, and will not, or not safely, when something else happens
	Error                   // it does not work, or is not safe, until it is mended
)

// String returns the severity in lower case.
func (s Severity) String() string {
	names := [...]string{"note", "warning", "error"}
	if int(s) < len(names) {
		return names[s]
	}
	return "severity(" + itoa(uint64(s)) + ")"
}

// Found returns a finding without advice, its reason made by fmt.Sprintf.
func Found(check string, severity Severity, reason string, args ...any) Finding {
	return Finding{Check: check, Severity: severity, Reason: fmt.Sprintf(reason, args...)}
}

// Do returns the finding with an advice, made by fmt.Sprintf.
func (f Finding) Do(advice string, args ...any) Finding {
	f.Advice = fmt.Sprintf(advice, args...)
	return f
}
