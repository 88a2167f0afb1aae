package pgnode

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (l node.Lease, err error) {
	err = n.look(ctx, "inspect", func(ctx context.Context) error {
		var clock, expires, origin, token, register int64
		var holder []byte
		var terms string
		var votes bool
		err := n.query(ctx, n.sql.inspect, []any{[]byte(name), node.Stripe(name)}, &clock, &holder, &expires, &origin, &token,
			&register, &terms, &votes)
		if err != nil {
			return err
		}
		l = leaseOf(name, holder, clock, expires, origin, token)
		l.Register, l.Out = fence.Token(register), !votes
		if of, err := termsOf(terms); err == nil && of.Members != single {
			l.Members = of.Members
		}
		return nil
	})
	return l, err
}

func leaseOf(name string, holder []byte, clock, expires, origin, token int64) node.Lease {
	e := rule.Entry{Holder: node.Holder(holder), Expires: time.Duration(expires) * time.Millisecond,
		Origin: fence.Token(origin), Token: fence.Token(token)}
	return e.Lease(name, time.Duration(clock/1000)*time.Millisecond)
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	err = n.look(ctx, "waiting", func(ctx context.Context) error {
		var there []node.Waiter
		var count int
		err := n.each(ctx, n.sql.waiting, []any{[]byte(name), max(limit, 1)}, func(scan func(...any) error) error {
			var clock int64
			var waiter []byte
			var at node.Place
			if err := scan(&clock, &at.Stamp, &waiter, &count); err != nil {
				return err
			}
			if at.Waiter = string(waiter); len(there) < limit {
				there = append(there, node.WaiterOf(at, time.Duration(clock)*time.Microsecond))
			}
			return nil
		})
		if err == nil {
			first, all = there, count
		}
		return err
	})
	return first, all, err
}

// pageSize is how many leases List reads in one statement.
const pageSize = 256

// List implements node.Admin, in the order of the names' bytes. No statement is open while
// yield runs: it may take its time, and call the node.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	after := ""
	for {
		var page []node.Lease
		err := n.look(ctx, "list", func(ctx context.Context) error {
			err := n.each(ctx, n.sql.page, []any{[]byte(prefix), []byte(after), pageSize}, func(scan func(...any) error) error {
				var name, holder []byte
				var expires, origin, token, clock int64
				if err := scan(&name, &holder, &expires, &origin, &token, &clock); err != nil {
					return err
				}
				page = append(page, leaseOf(string(name), holder, clock, expires, origin, token))
				return nil
			})
			if err != nil {
				return err
			}
			return n.addRegisters(ctx, page) // only now, or a connection would wait for another one
		})
		if err != nil {
			return err
		}
		for _, l := range page {
			if !yield(l) {
				return nil
			}
			after = l.Name
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// addRegisters reads the registers of leases.
func (n *Node) addRegisters(ctx context.Context, page []node.Lease) error {
	if len(page) == 0 {
		return nil
	}
	var stripes []string
	for _, l := range page {
		stripes = append(stripes, strconv.Itoa(node.Stripe(l.Name)))
	}
	registers := make(map[int]fence.Token)
	err := n.each(ctx, n.sql.registersOf, []any{"{" + strings.Join(stripes, ",") + "}"},
		func(scan func(...any) error) error {
			var stripe int
			var register int64
			err := scan(&stripe, &register)
			registers[stripe] = fence.Token(register)
			return err
		})
	if err != nil {
		return err
	}
	for i := range page {
		page[i].Register = registers[node.Stripe(page[i].Name)]
	}
	return nil
}

// Examine implements node.Examiner.
func (n *Node) Examine(ctx context.Context, look node.Look) (e node.Examination, err error) {
	e = node.Examination{Product: "PostgreSQL", Member: n.member}
	err = n.look(ctx, "examine", func(ctx context.Context) error { return n.examine(ctx, look, &e) })
	return e, err
}

func (n *Node) examine(ctx context.Context, look node.Look, e *node.Examination) error {
	var version, fsync, pages, isolation string
	var replica bool
	var uptime int64
	var wrong int
	err := engine.MeasureTrips(e, func() (none time.Time, err error) {
		return none, n.query(ctx, n.sql.examined, []any{n.schema}, &version, &replica, &fsync, &pages, &isolation, &uptime,
			&wrong)
	})
	if err != nil {
		return err
	}
	var clock int64
	if err := n.query(ctx, n.sql.clock, nil, &clock); err != nil {
		return err
	}
	e.Clock = node.ClockReading{Store: time.UnixMicro(clock), Here: time.Now()}
	if words := strings.Fields(version); len(words) > 1 {
		e.Version = words[1]
	}
	e.Role, e.Uptime = "primary", time.Duration(uptime)*time.Second
	if replica {
		e.Role = "replica"
		return fmt.Errorf("%w: this is a replica: name the primary", node.ErrMisconfigured)
	}
	if fsync == "off" || pages == "off" {
		e.Findings = append(e.Findings,
			node.Found("durability", node.Warning,
				"fsync is %s and full_page_writes is %s: after a crash of the machine, not of the server, tokens may go back.",
				fsync, pages).
				Do("Set both to on."))
	}
	if isolation != "read committed" {
		e.Findings = append(e.Findings,
			node.Found("isolation", node.Error, "Transactions of this user are %s: no lock can be taken.", isolation).
				Do("ALTER ROLE … SET default_transaction_isolation = 'read committed'."))
	}
	if wrong > 0 {
		e.Findings = append(e.Findings, node.Found("tables", node.Error, "%d tables of the schema %s have been made logged or unlogged by hand: after a crash the server would not know what it has forgotten.", wrong, n.schema).
			Do("ALTER TABLE … SET UNLOGGED for all but meta and registers, which are LOGGED."))
	}
	if err := n.examineStandbys(ctx, e); err != nil {
		return err
	}
	f, err := admission{n}.Facts(ctx)
	if err != nil {
		return err
	}
	f.Examine(e, cmp.Or(n.admission.Terms().MaxTTL, look.MaxTTL))
	if f.Terms.Members == single {
		e.Members = nil
	}
	return nil
}

// examineStandbys finds out who may take the server's place while it lives. A user that must not
// know hears nothing.
func (n *Node) examineStandbys(ctx context.Context, e *node.Examination) error {
	var follow, gone int
	var synchronous string
	err := n.query(ctx, n.sql.standbys, nil, &follow, &gone, &synchronous)
	if hasCode(err, insufficientPrivilege) || err == nil && follow+gone == 0 {
		return nil
	} else if err != nil {
		return err
	}
	also := ""
	if synchronous != "" {
		also = " synchronous_standby_names does not prevent that: leases are not replicated."
	}
	e.Findings = append(e.Findings, node.Found("standby", node.Warning,
		"%d standbys follow this server, and %d did. A primary that is cut off while its standby is promoted goes on granting and extending, for as long as it runs, what the promoted one grants to others.%s", follow, gone, also).
		Do(
			"Make sure that a primary is stopped for certain before its standby is promoted: a watchdog, fencing, or by hand."))
	return nil
}
