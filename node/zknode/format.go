package zknode

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
)

// format is the number of what is on the servers. A program that finds another one does
// not use it.
const format = 2

// What is in the znodes is text, a line for each field, for people who look with ZooKeeper's own
// tools. It is written and read in one order.

// paths are where things are.
type paths struct{ root string }

func (p paths) group() string             { return p.root + "/group" }
func (p paths) clock() string             { return p.root + "/clock" }
func (p paths) mark(memory string) string { return p.root + "/admitted-" + memory }
func (p paths) out(memory string) string  { return p.root + "/out-" + memory }
func (p paths) stripes() string           { return p.root + "/stripes" }
func (p paths) stripe(stripe int) string  { return p.stripes() + "/" + cas.StripeKey(stripe) }
func (p paths) sessions() string          { return p.root + "/sessions" }
func (p paths) session(id string) string  { return p.sessions() + "/" + id }
func (p paths) clients() string           { return p.root + "/clients" }
func (p paths) client(c string) string    { return p.clients() + "/" + c }

// idOf is what a session is called.
func idOf(session int64) string { return strconv.FormatUint(uint64(session), 16) }

// znode is the znode of a stripe, as it was read or written.
type znode struct {
	cas.Timed
	version int32
}

// Times are kept far from the end of time.Duration.
const maxMillis = 1 << 43

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
	return g, r.err("the group's record")
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
	if n, err := strconv.Atoi(version); err == nil && n != format && r.why == nil {
		r.bad, r.why = true, fmt.Errorf("it has the format %d, and this program knows format %d: use one version of fenlock", n,
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

// err says that what was read is not fenlock's. It does not repeat it: there may be the
// identity of a holder in it.
func (r *lines) err(what string) error {
	switch {
	case r.why != nil:
		return fmt.Errorf("%w: the znode of %s cannot be read: %w", node.ErrMisconfigured, what, r.why)
	case r.bad:
		return fmt.Errorf("%w: the znode of %s is not as fenlock writes it: another program has changed it",
			node.ErrMisconfigured, what)
	}
	return nil
}
