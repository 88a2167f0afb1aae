package respnode

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/examine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Bounds of an examination.
const (
	examinePatience = 2 * time.Second // for an answer
	examineClocks   = 3               // how often the clock is read, to find the shortest round trip
	examineKeys     = 5000            // how many keys of the server are looked at, whosever they are
	examineEntries  = 1000            // how many of them are read
	examineAtOnce   = 50              // in one write
)

// Examine implements node.Examiner. It asks over the node's one connection, admits no server and
// writes nothing to it. To try a write, it puts the write into a transaction that the server
// discards. With look.Thorough it leaves, until the node is closed, a subscription to a channel
// that is not used.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	x := examiner{Node: n, look: look, dials: n.link.Dial()}
	s, err := x.all(ctx)
	if err != nil {
		err = x.silent(err)
		return node.Examination{Member: n.server.Member, RoundTrip: x.trip, Clock: x.clock, Address: x.link.Remote(),
			Findings: []node.Finding{examine.Failure(err, n.errors.Describe(err))}}, n.errors.Fail(err)
	}
	e := s.Examination()
	e.Member, e.RoundTrip, e.Clock = n.server.Member, x.trip, x.clock
	err = s.Unusable()
	if err != nil && !explained(e.Findings) {
		e.Findings = append([]node.Finding{examine.Failure(err, n.errors.Describe(err))}, e.Findings...)
	}
	return e, n.errors.Fail(err)
}

// explained reports whether there is a finding that says why the node cannot be used.
func explained(found []node.Finding) bool {
	for _, f := range found {
		if f.Severity == node.Error || f.Check == "loading" {
			return true
		}
	}
	return false
}

// examiner is one examination.
type examiner struct {
	*Node
	look  node.Look
	dials uint64    // connections before it
	asked time.Time // when the last question was
	trip  time.Duration
	clock node.ClockReading
}

// all reads all that is to be known.
func (x *examiner) all(ctx context.Context) (s examine.Server, err error) {
	if x.keys.Clustered() {
		// The member that has the slot is looked at, not whichever was named.
		err := x.ask(ctx, func(ctx context.Context) error {
			return x.link.Identify(ctx, x.keys.Terms(), func(string, resp.Reply, uint64) error { return nil })
		})
		if err != nil {
			return s, err
		}
	}
	if err = x.readClock(ctx); err != nil {
		return s, err
	}
	// Of a server that tells no time the rest is known all the same.
	err = x.ask(ctx, func(ctx context.Context) error {
		s.Looked, err = x.keys.ParseLooked(x.link.DoMulti(ctx, x.keys.Look()...))
		return err
	})
	if err != nil {
		return s, err
	}
	s.Reached = examine.Reached{Address: x.link.Remote(), TLS: x.server.TLS, User: x.server.User,
		Password: x.server.Password, Witness: admission.Witness(max(x.server.Witness, -1))}
	if x.server.AnyUser {
		s.Reached.User = "USER"
	}
	s.MaxTTL, s.Now = x.look.MaxTTL, x.clock.Store
	if s.Refused != nil {
		return s, nil
	}
	if !s.Fragile() {
		if err := x.closer(ctx, &s); err != nil {
			return s, err
		}
	}
	if x.look.Thorough && s.Unusable() == nil {
		s.Close = new(examine.Close)
		err = x.thoroughly(ctx, &s)
	}
	return s, err
}

// closer asks what a user that only looks need not be allowed.
func (x *examiner) closer(ctx context.Context, s *examine.Server) error {
	err := x.ask(ctx, func(ctx context.Context) error {
		return s.AddCloser(x.link.DoMulti(ctx, x.keys.LookCloser()...))
	})
	if err != nil {
		return err
	}
	return x.permissions(ctx, s)
}

// ask sends something and waits for the answer, for as long as a server may take.
func (x *examiner) ask(ctx context.Context, send func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, examinePatience)
	defer cancel()
	x.asked = time.Now()
	return send(ctx)
}

// readClock reads the server's clock a few times, and keeps the reading that is the
// most exact. A server that refuses to tell it is not asked again.
func (x *examiner) readClock(ctx context.Context) error {
	for range examineClocks {
		err := x.ask(ctx, func(ctx context.Context) error {
			before := time.Now()
			shown, err := command.ParseClock(x.link.Do(ctx, command.Clock()))
			trip := time.Since(before)
			if err == nil && (x.trip == 0 || trip < x.trip) {
				x.trip, x.clock = trip, node.ClockReading{Store: shown, Here: before.Add(trip / 2)}
			}
			return err
		})
		if reply, refused := resp.IsError(err); refused && !fatal(reply) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fatal reports whether a server that says so answers nothing else either.
func fatal(reply resp.Error) bool {
	for _, said := range []string{"WRONGPASS", "NOAUTH", "DENIED", "AUTH", "invalid password", "BUSY"} {
		if strings.HasPrefix(reply.Error(), said) {
			return true
		}
	}
	return false
}

// thoroughly looks at who may be there, at entries and at registers.
func (x *examiner) thoroughly(ctx context.Context, s *examine.Server) error {
	if !s.Fragile() && !x.server.AnyUser {
		if err := x.account(ctx, s.Close); err != nil {
			return err
		}
	}
	if err := x.entries(ctx, s.Close); err != nil || s.CannotTell != nil {
		return err // without transactions, the registers cannot be read either
	}
	for from := 0; from < node.Stripes; from += command.RegistersAtOnce {
		err := x.ask(ctx, func(ctx context.Context) error {
			replies, err := x.link.DoMulti(ctx, x.keys.SomeRegisters(from)...)
			return s.Close.Damage.Add(from, replies, err)
		})
		if err != nil {
			return ignoreRefusal(err) // what is not permitted is found by then
		}
	}
	return nil
}

// permissions asks what the user may do, as far as the server tells.
func (x *examiner) permissions(ctx context.Context, s *examine.Server) error {
	err := x.ask(ctx, func(ctx context.Context) error {
		replies, err := x.link.DoMulti(ctx, command.Transactions()...)
		for _, r := range replies {
			err = cmp.Or(err, r.Err())
		}
		return err
	})
	if err == nil { // without transactions what follows would be carried out
		err = x.ask(ctx, func(ctx context.Context) error {
			commands, all := x.keys.Probe(rand.Text())
			replies, err := x.link.DoMulti(ctx, commands...)
			s.Allowed, err = command.ParseProbe(all, replies, err)
			if !s.NeedsWait() {
				s.Allowed.WithoutWait()
			}
			return err
		})
	}
	if err != nil && ignoreRefusal(err) == nil {
		s.CannotTell, err = x.errors.Describe(err), nil
	}
	return err
}

// account asks for all that the user may do, and whether it can be notified.
func (x *examiner) account(ctx context.Context, c *examine.Close) error {
	for _, who := range []struct {
		name string
		to   **command.Account
	}{{x.server.User, &c.Account}, {"default", &c.Default}} {
		err := x.ask(ctx, func(ctx context.Context) error {
			a, err := command.ParseUser(x.link.Do(ctx, command.User(who.name)))
			if err == nil {
				*who.to = &a
			}
			return ignoreRefusal(err)
		})
		if err != nil {
			return err
		}
		if c.Account == nil || x.server.User == "default" {
			c.Default = c.Account
			break
		}
	}
	return x.ask(ctx, func(ctx context.Context) error {
		ctx, heard := context.WithCancel(ctx)
		defer heard()
		err := x.link.Subscribe(ctx, command.NotifyPrefix+strings.Repeat("0", node.IDLength), heard, func(string) {})
		if command.IsDenied(err) {
			c.Notify = err
		}
		return nil // a server that is silent, the next question finds
	})
}

// ignoreRefusal returns nil for what a server said, and the error if it said nothing.
func ignoreRefusal(err error) error {
	if _, refused := resp.IsError(err); refused {
		return nil
	}
	return err
}

// entries reads what has the prefix of locks, of the first keys that the server has. With
// an empty prefix all keys have it.
func (x *examiner) entries(ctx context.Context, c *examine.Close) error {
	if x.keys.Prefix() == "" {
		return nil
	}
	looked := 0
	for cursor, first := uint64(0), true; (first || cursor != 0) && looked < examineKeys &&
		len(c.Entries) < examineEntries; first = false {
		var keys []string
		err := x.ask(ctx, func(ctx context.Context) (err error) {
			var n int
			keys, cursor, n, err = command.ParseEntriesPage(x.link.Do(ctx, x.keys.EntriesPage(cursor)))
			looked += n
			return err
		})
		for len(keys) > 0 && err == nil {
			n := min(len(keys), examineAtOnce)
			err = x.ask(ctx, func(ctx context.Context) error { return x.read(ctx, keys[:n], c) })
			keys = keys[n:]
		}
		if err != nil {
			return ignoreRefusal(err) // what is not permitted is found by then
		}
	}
	return nil
}

func (x *examiner) read(ctx context.Context, keys []string, c *examine.Close) error {
	var commands []resp.Command
	for _, key := range keys {
		commands = append(commands, x.keys.AskEntry(key)...)
	}
	replies, err := x.link.DoMulti(ctx, commands...)
	for i, key := range keys {
		if err != nil {
			return err
		}
		var e command.Entry
		var there bool
		if e, there, err = x.keys.ParseEntry(key, replies[2*i:2*i+2]); there {
			c.Entries = append(c.Entries, e)
		}
	}
	return err
}

// silent makes the error of a server that did not answer in time one that says so.
func (x *examiner) silent(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	dials := x.link.Dial()
	return examine.Silence{After: time.Since(x.asked).Round(100 * time.Millisecond),
		Connected: dials > x.dials || dials > 0 && x.link.Up(dials)}
}
