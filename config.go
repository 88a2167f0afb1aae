package fenlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
)

// Bounds of what a Locker accepts.
const (
	MaxNameLength  = 512 // bytes
	MaxLabelLength = 128 // bytes
	MaxNodes       = core.MaxNodes
	MinTTL         = 100 * time.Millisecond
)

// Defaults of Config.
const (
	DefaultTTL     = 10 * time.Second
	DefaultMaxTTL  = 30 * time.Second
	DefaultMaxHold = time.Hour
)

// Node is one independent store that can hold a lock on its own: a Valkey or Redis
// primary, a database. The engines, in the folder node, open them; package node says
// what an engine has to do.
type Node = node.Node

// Token is a fencing token, the same type as fence.Token: who passes it on only need not import
// that package.
type Token = fence.Token

// Config is what a Locker is made with. Only Nodes is required; every other
// field's zero value stands for the default.
type Config struct {
	// Nodes are the quorum group: independent primaries, the same ones for
	// all clients. Three or five are usual; an even number works, but four nodes
	// survive the loss of one only, as three do. One node gives locks and tokens
	// as long as that node lives. At most MaxNodes. The Locker owns them from New
	// on, and closes them when it is closed.
	Nodes []Node

	// TTL is the length of a lease: how long a lock stays taken after its holder
	// died. Extension renews it, so it does not limit how long a lock can be held.
	// Shorter frees the locks of the dead sooner; longer survives longer pauses
	// of the holder and outages of the nodes. 0 means DefaultTTL; at least
	// MinTTL, at most MaxTTL, in whole milliseconds.
	//
	// On a node that binds its leases to this process (node.Binder, as filenode.Node.Bind) a lock
	// is valid until the process has ended, and free then. The node is only asked, each third of
	// the TTL, whether the lock was broken.
	TTL time.Duration

	// MaxTTL is the longest TTL of any client of the group, and so how long a node
	// that lost its memory stays out. All clients must agree; the nodes record it,
	// and refuse a longer lease. 0 means DefaultMaxTTL.
	MaxTTL time.Duration

	// NewServers asserts that no server of the group was ever used, so that they need not wait for
	// MaxTTL until they vote. It has an effect only where all servers answer and have nothing of
	// fenlock's recorded, and where this Locker has not seen them in use. If that is because all of
	// them have just lost their memory, a lock that another client still holds can be taken. So set
	// it once, by hand (docs/operations.md).
	NewServers bool

	// NodeTimeout bounds each request to a node. A node that is slower counts as unknown. An
	// extension that it accepts later still counts, within three tenths of the TTL, and so does a
	// grant to an Acquire. While nodes are known to answer late, an Acquire waits for up to a sixth
	// of the TTL where only answers in time count. 0 means a twentieth of the TTL, but 25 ms to 1 s.
	// At most a quarter of the TTL, so that a hung node cannot use up the validity. A node that
	// binds its leases to this process has no such limit, and a minute by default.
	NodeTimeout time.Duration

	// MaxHold ends a tenure, however long its holder goes on extending: a
	// forgotten lock becomes free after MaxHold and one TTL. Lock.Context ends
	// then with ErrMaxHold. 0 means DefaultMaxHold, negative means unbounded.
	MaxHold time.Duration

	// Label tells people who holds a lock. It is stored beside the lease and shown to clients that
	// are refused, so it should hold no secret. "" means host/pid. At most MaxLabelLength bytes of
	// UTF-8 without control characters.
	Label string

	// Logger is told when a node stops working and when it works again, as Observer.Node is. These
	// records have the attributes node, state and error. It is also told of locks that are lost. It
	// never sees a password or a holder's identity. nil is silent.
	Logger *slog.Logger

	// Clock is the monotonic clock that validity is counted by, from any epoch; it is called from
	// many goroutines. nil is the system's: CLOCK_BOOTTIME on Linux, which goes on while the
	// machine is suspended, or, inside a testing/synctest bubble, the bubble's. It must not be
	// slower than true time: outside of tests, mutual exclusion depends on it.
	Clock func() time.Duration

	// Observer is told why callers wait, and which nodes work. The zero Observer hears
	// nothing.
	Observer Observer
}

// withDefaults returns the config with its zero values filled in. The error matches ErrInvalid and
// prints both sides of a relation that does not hold.
func (c Config) withDefaults() (Config, error) {
	c.Nodes = slices.Clone(c.Nodes) // the caller may go on using its slice
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.MaxTTL = cmp.Or(c.MaxTTL, DefaultMaxTTL)
	bound := binds(c.Nodes)
	if bound {
		c.NodeTimeout = cmp.Or(c.NodeTimeout, boundTimeout)
	}
	c.NodeTimeout = cmp.Or(c.NodeTimeout, min(max(c.TTL/20, 25*time.Millisecond), time.Second))
	c.MaxHold = cmp.Or(c.MaxHold, DefaultMaxHold)
	if c.Label == "" {
		c.Label = DefaultLabel()
	}
	if c.Clock == nil {
		c.Clock = clock.ForTimers()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := CheckNodes(c.Nodes); err != nil {
		return c, err
	}
	if err := checkTTL("Config.TTL", c.TTL, c.MaxTTL); err != nil {
		return c, err
	}
	switch {
	case c.MaxTTL > 24*time.Hour:
		return c, invalidf("Config.MaxTTL is %v, at most 24h is possible: a node that lost its memory stays out for so long",
			c.MaxTTL)
	case c.NodeTimeout < time.Millisecond:
		return c, invalidf("Config.NodeTimeout is %v, at least 1ms is needed", c.NodeTimeout)
	case c.NodeTimeout > c.TTL/4 && !bound:
		return c, invalidf(
			"Config.NodeTimeout is %v, at most a quarter of Config.TTL, %v, is possible: a hung node could use up the lease",
			c.NodeTimeout, c.TTL)
	case c.MaxHold > 0 && c.MaxHold < c.TTL:
		return c, invalidf("Config.MaxHold is %v, shorter than Config.TTL, %v", c.MaxHold, c.TTL)
	}
	return c, checkText("Config.Label", c.Label, MaxLabelLength)
}

// checkTTL refuses a lease that is too short, or longer than the group allows.
func checkTTL(what string, ttl, most time.Duration) error {
	switch {
	case ttl < MinTTL:
		return invalidf("%s is %v, at least %v is needed", what, ttl, MinTTL)
	case ttl%time.Millisecond != 0:
		return invalidf("%s is %v, it must be a whole number of milliseconds", what, ttl)
	case ttl > most:
		return invalidf("%s is %v, longer than Config.MaxTTL, %v (all clients of the group must agree on MaxTTL)", what, ttl,
			most)
	}
	return nil
}

// CheckNodes reports whether nodes can be a quorum group: at least one, at most MaxNodes, and none
// of them twice. The error matches ErrInvalid. It sends nothing, and New calls it itself.
func CheckNodes(nodes []Node) error {
	switch {
	case len(nodes) == 0:
		return invalidf("Config.Nodes is empty: a lock needs at least one node")
	case len(nodes) > MaxNodes:
		return invalidf("Config.Nodes has %d nodes, at most %d are possible", len(nodes), MaxNodes)
	}
	for i, n := range nodes {
		if n == nil {
			return invalidf("Config.Nodes[%d] is nil", i)
		}
		for j, other := range nodes[:i] {
			// Two lockers may have nodes of one name; the nodes of one group are
			// told apart by it, in errors too.
			if n.String() == other.String() {
				return invalidf("Config.Nodes[%d] and [%d] are the same node, %s: it would vote twice", j, i, n)
			}
		}
		if len(nodes) > 1 && binds(nodes[i:i+1]) {
			return invalidf("Config.Nodes[%d], %s, binds its locks to this process, and so has to be the only node", i, n)
		}
	}
	return nil
}

// boundTimeout is the NodeTimeout of a node that binds. Such a node is on no network, and a late
// answer of it costs no validity: it only has to end some time.
const boundTimeout = time.Minute

// binds reports whether leases of the nodes end with this process, and not by time.
func binds(nodes []Node) bool {
	if len(nodes) != 1 || nodes[0] == nil {
		return false
	}
	b, is := nodes[0].Engine().(node.Binder)
	return is && b.Binds()
}

// unbound refuses what needs a lease that outlives this process.
func (c *Config) unbound(what string) error {
	if binds(c.Nodes) {
		return invalidf("%s needs a lock that may outlive this process: %s binds its locks to the process", what, c.Nodes[0])
	}
	return nil
}

// CheckName reports whether name can be locked: 1 to MaxNameLength bytes of
// UTF-8 without control characters. The error matches ErrInvalid. Acquire and
// the others call it themselves.
func CheckName(name string) error {
	if name == "" {
		return invalidf("the name of a lock is empty")
	}
	return checkText("the name of a lock", name, MaxNameLength)
}

func checkText(what, s string, limit int) error {
	switch {
	case len(s) > limit:
		return invalidf("%s has %d bytes, at most %d are possible: %.40q...", what, len(s), limit, s)
	case !utf8.ValidString(s):
		return invalidf("%s is not valid UTF-8: %q", what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalidf("%s has a control character: %q", what, s)
	}
	return nil
}

// DefaultLabel returns the Label of a Config that has none: the host's name and the process id, as
// in web-1/4711.
func DefaultLabel() string {
	host, err := os.Hostname()
	if err != nil || checkText("host", host, MaxLabelLength-20) != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// invalidf returns an error that matches ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// checkShared refuses nodes that cannot share a name.
func (c *Config) checkShared() error {
	for _, n := range c.Nodes {
		if _, shares := n.Engine().(node.Sharer); !shares {
			return invalidf("a name cannot be shared on %s: nodes of its kind lease a name to one holder only", n)
		}
	}
	return nil
}
