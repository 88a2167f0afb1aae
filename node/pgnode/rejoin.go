package pgnode

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/rule"
)

const (
	// admissionTimeout bounds one try to have the server admitted.
	admissionTimeout = 5 * time.Second
	// retryAdmission is for how long an admission that failed is not tried again.
	retryAdmission = 200 * time.Millisecond
)

// rejoining is how the node comes to vote.
type rejoining struct {
	password func() (string, error) // of the URL's file, nil: none

	group atomic.Pointer[membership] // nil until Join
	one   chan struct{}              // one try at a time: who does it has put something in
	until time.Time                  // not worth asking before
	why   string
}

// membership is a group that was joined, and what all its clients agree on.
type membership struct {
	node.Group
	terms string
}

// terms returns what is compared with what the server has recorded; nobody's are empty.
func (r *rejoining) terms() string {
	if g := r.group.Load(); g != nil {
		return g.terms
	}
	return ""
}

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	var members []string
	for _, of := range g.Nodes {
		members = append(members, memberOf(of))
	}
	slices.Sort(members)
	if len(members) == 1 {
		// A group of one is this schema, by whatever address a client reaches it.
		members = []string{"alone"}
	}
	to := &membership{g, fmt.Sprintf("%d %s", g.MaxTTL.Milliseconds(), strings.Join(members, " "))}
	if n.rejoin.group.CompareAndSwap(nil, to) {
		return nil
	}
	same := func(a, b node.Node) bool { return a.Engine() == b.Engine() } // through wrappers
	if old := n.rejoin.group.Load(); old.MaxTTL != g.MaxTTL || !slices.EqualFunc(old.Nodes, g.Nodes, same) {
		return n.errorf("join", invalidf("it belongs to another group already, with other nodes or another MaxTTL"))
	}
	return nil
}

// memberOf is what the clients of a group call one of its nodes.
func memberOf(n node.Node) string {
	if named, ok := n.Engine().(interface{ Member() string }); ok {
		return named.Member()
	}
	return n.String()
}

// try has the server admitted, if that is safe. It returns "" if it is now, or why it is
// not; the error is for what waiting does not mend.
func (r *rejoining) try(ctx context.Context, n *Node) (detail string, err error) {
	g := r.group.Load()
	if g == nil {
		return "it is not admitted, and only who takes locks admits it (fenlock.New, fenlock run)", nil
	}
	select {
	case r.one <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-r.one }()
	if now := time.Now(); now.Before(r.until) {
		return r.detail(now), nil
	}
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	detail, wait, err := n.admit(ctx, g)
	switch {
	case err != nil:
		return "", err
	case detail == "":
		r.until = time.Time{}
		return "", nil
	}
	r.why, r.until = detail, time.Now().Add(cmp.Or(wait, retryAdmission))
	return r.detail(time.Now()), nil
}

func (r *rejoining) detail(now time.Time) string {
	if left := r.until.Sub(now); left > retryAdmission {
		return fmt.Sprintf("%s; voting starts in %d s", r.why, int(math.Ceil(left.Seconds())))
	}
	return r.why
}

// quarantine is for how long a server that may have forgotten leases does not vote.
func quarantine(maxTTL time.Duration) time.Duration { return maxTTL + rule.Drift(maxTTL) }

// memory is what the server says of what it remembers.
type memory struct {
	id       string
	admitted bool
	waited   time.Duration
	used     bool // a memory of this schema was admitted, ever
}

// admit returns "" if the server votes now, or why it does not and for how long, 0 if that
// is not known.
func (n *Node) admit(ctx context.Context, g *membership) (detail string, wait time.Duration, err error) {
	m, err := n.enter(ctx, g)
	if err != nil || m.admitted {
		return "", 0, err
	}
	if left := quarantine(g.MaxTTL) - m.waited; left > 0 {
		if !m.used {
			return "the schema is new, and may stand for one whose leases are not over", left, nil
		}
		return "the server crashed, is another one now, or was restored, and has forgotten its leases", left, nil
	}
	merged := rebuild.Result{}
	if len(g.Nodes) > 1 {
		self := n.inGroup(g)
		r, err := n.Registers(ctx)
		if err != nil {
			return "", 0, err
		}
		merged, err = rebuild.Merge(len(g.Nodes), rebuild.Self{Server: r.Server, Memory: m.id, Untouched: true}, rebuild.Ask(ctx, g.Group, self))
		if err != nil {
			return err.Error(), 0, nil
		}
	}
	var stripes, tokens []string
	for stripe, token := range merged.Tokens {
		stripes = append(stripes, strconv.Itoa(stripe))
		tokens = append(tokens, strconv.FormatUint(uint64(token), 10))
	}
	var done bool
	err = n.query(ctx, n.sql.admit, []any{m.id, "{" + strings.Join(stripes, ",") + "}", "{" + strings.Join(tokens, ",") + "}", strings.Join(merged.Empty, " ")}, &done)
	if err != nil {
		return "", 0, err
	}
	if done && merged.Weak && g.Warn != nil {
		g.Warn(n.inGroup(g), "node admitted without the registers of a majority: this is a new group, or a majority lost its memory at once; new tokens are larger than old ones only as far as the clients' clocks agree")
	}
	return "", 0, nil
}

// inGroup returns the node as its group has it, maybe within a wrapper.
func (n *Node) inGroup(g *membership) node.Node {
	if i := slices.IndexFunc(g.Nodes, func(of node.Node) bool { return of.Engine() == any(n) }); i >= 0 {
		return g.Nodes[i]
	}
	return n
}

// enter asks what the server remembers. A schema that nobody has used yet votes at once if
// it is the whole group, since whoever made it could not have had a lock there, or
// if somebody says that all servers of the group are new.
func (n *Node) enter(ctx context.Context, g *membership) (m memory, err error) {
	var recorded string
	var waited int64
	for range tries {
		err = n.query(ctx, n.sql.enter, []any{g.terms, len(g.Nodes) == 1 || g.New, rand.Text()}, &recorded, &m.id, &m.admitted, &waited, &m.used)
		if err == nil || !again(err) {
			break
		}
	}
	if err != nil {
		return m, err
	}
	m.waited = time.Duration(waited) * time.Microsecond
	return m, disagreement(recorded, g.terms)
}

// disagreement returns an error that matches node.ErrMisconfigured unless the terms that are
// recorded are the client's own.
func disagreement(recorded, own string) error {
	if recorded == own {
		return nil
	}
	ttl, members, err := splitTerms(recorded)
	mine, named, _ := splitTerms(own)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the group's terms in the table meta are %.60q, which no fenlock wrote", node.ErrMisconfigured, recorded)
	case ttl != mine:
		return fmt.Errorf("%w: the group's longest TTL (MaxTTL, --max-ttl) is %v, and this client's is %v: all clients of a group have the same", node.ErrMisconfigured, ttl, mine)
	}
	return fmt.Errorf("%w: the node is in a group of %q, and this client's group is %q: all clients of a group have the same nodes", node.ErrMisconfigured, members, named)
}

func splitTerms(terms string) (maxTTL time.Duration, members string, err error) {
	first, members, _ := strings.Cut(terms, " ")
	ms, err := strconv.ParseInt(first, 10, 64)
	if err != nil || ms < 1 || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, "", errors.New("no terms")
	}
	return time.Duration(ms) * time.Millisecond, members, nil
}

// Registers implements node.Rejoiner, in one statement.
func (n *Node) Registers(ctx context.Context) (r node.Registers, err error) {
	if err := n.begin(); err != nil {
		return r, n.errorf("registers", err)
	}
	defer n.running.Done()
	ctx, end := n.within(ctx)
	defer end()
	r.Tokens = make(map[int]fence.Token)
	err = n.each(ctx, n.sql.registers, []any{n.schema}, func(scan func(...any) error) error {
		var stripe int
		var token int64
		var terms, empty, place string
		if err := scan(&stripe, &token, &terms, &r.Memory, &empty, &r.Admitted, &place); err != nil {
			return err
		}
		if stripe >= 0 && stripe < node.Stripes && token > 0 {
			r.Tokens[stripe] = fence.Token(token)
		}
		r.MaxTTL, r.Members, _ = splitTerms(terms)
		r.Empty, r.Server = strings.Fields(empty), place
		return nil
	})
	if err == nil {
		// Which server, so that two nodes that lead to one are seen to be one.
		var system string
		if err = n.query(ctx, `SELECT system_identifier::text FROM pg_control_system()`, nil, &system); hasCode(err, insufficientPrivilege) {
			system, err = n.member, nil
		}
		r.Server = system + " " + r.Server
	}
	return r, n.errorf("registers", contextual(ctx, err))
}

// each reads all rows of a query.
func (n *Node) each(ctx context.Context, text string, args []any, row func(scan func(...any) error) error) error {
	rows, err := n.queryRows(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
