package zknode

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
)

// format is the number of what is on the servers. A program that finds another one does
// not use it.
const format = 1

// What is in the znodes is text, a line for each field, for people who look with ZooKeeper's own
// tools. It is written and read in one order.

// lease is what the znode of a lease has.
type lease struct {
	name   string
	holder node.Holder
	ttl    time.Duration
	origin fence.Token
	token  fence.Token
}

func (l lease) text() []byte {
	return fmt.Appendf(nil, "fenlock lease %d\nname %s\nholder %s\nttl %d\norigin %d\ntoken %d\n",
		format, strconv.Quote(l.name), strconv.Quote(string(l.holder)), l.ttl.Milliseconds(), uint64(l.origin),
		uint64(l.token))
}

func parseLease(text []byte) (lease, error) {
	r := lines{rest: string(text)}
	r.header("lease")
	l := lease{name: r.quoted("name"), holder: node.Holder(r.quoted("holder")),
		ttl: time.Duration(r.number("ttl", maxMillis)) * time.Millisecond, origin: r.token("origin"), token: r.token("token")}
	if l.holder == "" {
		r.bad = true
	}
	return l, r.err("a lease")
}

// maxMillis keeps times far from the end of time.Duration.
const maxMillis = 1 << 43

// queueRecord is what the znode of a queue has. A reservation is in it, and not in a lease's. It
// promises nothing, and has to outlive the session of the client that made it.
type queueRecord struct {
	name     string
	renewed  time.Duration // on the servers' clock
	reserved string        // the waiter that was notified; empty: none
	until    time.Duration // the reservation
	waiters  rule.Waiters
}

func (q queueRecord) text() []byte {
	b := fmt.Appendf(nil, "fenlock queue %d\nname %s\nrenewed %d\nreserved %s\nuntil %d\n",
		format, strconv.Quote(q.name), q.renewed.Milliseconds(), strconv.Quote(q.reserved), q.until.Milliseconds())
	for _, w := range q.waiters {
		b = fmt.Appendf(b, "%d %s\n", w.Stamp, strconv.Quote(w.Waiter))
	}
	return b
}

func parseQueue(text []byte) (queueRecord, error) {
	r := lines{rest: string(text)}
	r.header("queue")
	q := queueRecord{name: r.quoted("name"), renewed: time.Duration(r.number("renewed", maxMillis)) * time.Millisecond,
		reserved: r.quoted("reserved"), until: time.Duration(r.number("until", maxMillis)) * time.Millisecond}
	for !r.bad && r.rest != "" {
		stamp, quoted, _ := strings.Cut(r.line(), " ")
		n, err := strconv.ParseInt(stamp, 10, 64)
		waiter, bad := strconv.Unquote(quoted)
		p := node.Place{Waiter: waiter, Stamp: n}
		if err != nil || bad != nil || waiter == "" || rule.CheckPlace(p) != nil || len(q.waiters) > rule.MaxQueue {
			r.bad = true
			break
		}
		q.waiters = append(q.waiters, p)
	}
	return q, r.err("a queue")
}

// registerText is what the znode of a register has.
func registerText(t fence.Token) []byte { return []byte(t.String()) }

func parseRegister(text []byte) (fence.Token, error) {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n > uint64(fence.MaxToken) {
		return 0, fmt.Errorf("a register has %.40q, which is no token: it was changed by another program", text)
	}
	return fence.Token(n), nil
}

// groupRecord is what the ensemble knows of the group that uses it.
type groupRecord struct {
	server   string // random; identifies the ensemble as a node
	memory   string // random; another one after each loss that was noticed
	admitted bool   // the node votes, as long as the mark of this memory is there
	terms    admit.Terms
	empty    []string // as in node.Registers
}

func (g groupRecord) text() []byte {
	return fmt.Appendf(nil, "fenlock group %d\nserver %s\nmemory %s\nadmitted %t\nmaxttl %d\nmembers %s\nempty %s\n",
		format, strconv.Quote(g.server), strconv.Quote(g.memory), g.admitted, g.terms.MaxTTL.Milliseconds(),
		strconv.Quote(g.terms.Members), strconv.Quote(strings.Join(g.empty, " ")))
}

func parseGroup(text []byte) (groupRecord, error) {
	r := lines{rest: string(text)}
	r.header("group")
	g := groupRecord{server: r.quoted("server"), memory: r.quoted("memory")}
	g.admitted = r.field("admitted") == "true"
	g.terms.MaxTTL = time.Duration(r.number("maxttl", maxMillis)) * time.Millisecond
	g.terms.Members, g.empty = r.quoted("members"), strings.Fields(r.quoted("empty"))
	if g.server == "" || g.memory == "" || g.admitted && (g.terms.MaxTTL == 0 || g.terms.Members == "") ||
		strings.Trim(g.memory, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		r.bad = true
	}
	err := r.err("the group's record")
	if err != nil && !node.Permanent(err) {
		err = fmt.Errorf("%w: %w", node.ErrMisconfigured, err)
	}
	return g, err
}

// lines takes a text apart.
type lines struct {
	rest string
	bad  bool
	why  error
}

func (r *lines) line() string {
	line, rest, ok := strings.Cut(r.rest, "\n")
	if !ok {
		r.bad = true
	}
	r.rest = rest
	return line
}

func (r *lines) header(kind string) {
	version := r.field("fenlock " + kind)
	if n, err := strconv.Atoi(version); err == nil && n > format && r.why == nil {
		r.bad, r.why = true, fmt.Errorf("it has the format %d, and this program knows formats up to %d: upgrade it", n,
			format)
	} else if err != nil || n != format {
		r.bad = true
	}
}

func (r *lines) field(name string) string {
	value, ok := strings.CutPrefix(r.line(), name+" ")
	if !ok {
		r.bad = true
	}
	return value
}

func (r *lines) quoted(name string) string {
	value, err := strconv.Unquote(r.field(name))
	if err != nil {
		r.bad = true
	}
	return value
}

func (r *lines) number(name string, most uint64) uint64 {
	n, err := strconv.ParseUint(r.field(name), 10, 64)
	if err != nil || n > most {
		r.bad = true
	}
	return n
}

func (r *lines) token(name string) fence.Token {
	return fence.Token(r.number(name, uint64(fence.MaxToken)))
}

// err says that what was read is not fenlock's. It does not repeat it: there may be the
// identity of a holder in it.
func (r *lines) err(what string) error {
	switch {
	case r.why != nil:
		return fmt.Errorf("%w: the znode of %s cannot be read: %w", node.ErrMisconfigured, what, r.why)
	case r.bad:
		return fmt.Errorf("the znode of %s is not as fenlock writes it: another program has changed it", what)
	}
	return nil
}
