package zknode

import (
	"bytes"
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

// layout is the text of a groupRecord.
const layout = "fenlock group %d\nserver %q\nmemory %q\nadmitted %t\nmaxttl %d\nmembers %q\nempty %q\n"

func (g groupRecord) text() []byte {
	return fmt.Appendf(nil, layout, format, g.server, g.memory, g.admitted, g.terms.MaxTTL.Milliseconds(), g.terms.Members,
		admit.TextOfMemories(g.empty))
}

// parseGroup reads a text that is as text writes it. The error does not repeat it: there may be the
// identity of a holder in it.
func parseGroup(text []byte) (g groupRecord, err error) {
	found, ms, empty := format, uint64(0), ""
	fmt.Sscanf(string(text), layout, &found, &g.server, &g.memory, &g.admitted, &ms, &g.terms.Members, &empty)
	if found != format {
		return g, fmt.Errorf("%w: the znode of the group's record cannot be read: it has the format %d, and this program knows format %d: use one version of fenlock", node.ErrMisconfigured, found, format)
	}
	g.terms.MaxTTL, g.empty = time.Duration(min(ms, maxMillis))*time.Millisecond, admit.MemoriesOf(empty)
	if g.server == "" || g.memory == "" || g.admitted && (g.terms.MaxTTL == 0 || g.terms.Members == "") ||
		strings.Trim(g.memory, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || !bytes.HasPrefix(text, g.text()) {
		return g, fmt.Errorf("%w: the znode of the group's record is not as fenlock writes it: another program has changed it",
			node.ErrMisconfigured)
	}
	return g, nil
}
