package mysqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	rebuilding "github.com/fenlock/fenlock/node/rebuild"
)

const (
	// admissionTimeout bounds one try to admit a server.
	admissionTimeout = 5 * time.Second
	// retryAdmission is how long an admission that failed for want of other nodes is not
	// tried again.
	retryAdmission = 200 * time.Millisecond
)

// group is the quorum group of a node, and how far its admission has come.
type group struct {
	self   *Node
	joined atomic.Pointer[membership]

	mu     sync.Mutex
	trying chan struct{} // closed when the try that is under way has ended; nil: there is none
	detail string        // the outcome of the last one
	err    error
	until  time.Time // not worth another before
}

// membership is a group that was joined.
type membership struct {
	node.Group
	members string
	before  []*Node // those that come before this one: a server has one vote, by the first
}

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	same := func(a, b node.Node) bool { return a.Engine() == b.Engine() }
	to := &membership{Group: g}
	var members []string
	passed := false
	for _, m := range g.Nodes {
		if other, ok := m.Engine().(*Node); ok && !passed {
			if passed = other == n; !passed {
				to.before = append(to.before, other)
			}
		}
		name := m.String()
		if named, ok := m.Engine().(interface{ Member() string }); ok {
			name = named.Member()
		}
		members = append(members, name)
	}
	to.members = strings.Join(members, " ")
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	if old := n.group.joined.Load(); old != nil && (!slices.EqualFunc(old.Nodes, g.Nodes, same) || old.MaxTTL != g.MaxTTL) {
		return n.fail("join", errors.New("it belongs to another group already, with other nodes or another MaxTTL"))
	}
	n.group.joined.Store(to)
	return nil
}

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.registers(ctx)
	return r, n.fail("registers", contextual(ctx, n.life, err))
}

func (n *Node) registers(ctx context.Context) (r node.Registers, err error) {
	conn, s, err := n.conn(ctx)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	m, now, err := readMeta(ctx, conn)
	if err != nil {
		return r, err
	}
	r = node.Registers{Server: s.identity, Memory: m.lost(s), MaxTTL: m.maxTTL(), Members: m.Members, Tokens: map[int]fence.Token{}}
	if v, _, _ := m.decide(s, now, 0); v == vote || v == goOn {
		r.Admitted, r.Memory, r.Empty = true, m.Memory, m.Empty
	}
	rows, err := conn.QueryContext(ctx, fmt.Sprintf(`SELECT stripe, token FROM fenlock_stripes LIMIT %d`, node.Stripes+1))
	if err != nil {
		return r, err
	}
	defer rows.Close()
	read := 0
	for ; rows.Next(); read++ {
		var stripe int
		var token int64
		if err := rows.Scan(&stripe, &token); err != nil {
			return r, err
		}
		if stripe < 0 || stripe >= node.Stripes || token < 0 || token > int64(fence.MaxToken) {
			return r, fmt.Errorf("%w: stripe %d has the register %d", errDamaged, stripe, token)
		}
		if token > 0 {
			r.Tokens[stripe] = fence.Token(token)
		}
	}
	if err := rows.Err(); err != nil {
		return r, err
	}
	if read < node.Stripes { // what is missing may have been a register that counts
		return r, misconfigured("%d rows are missing in fenlock_stripes, which has been emptied: %s", node.Stripes-read, runMigrate)
	}
	return r, nil
}

// admitted reports whether the server that a row was read from may vote, and refuses one
// whose group is another one than this client's.
func (n *Node) admitted(ctx context.Context, conn *sql.Conn, s *session, r row) (bool, error) {
	if r.identity != s.identity {
		return false, errors.New("the connection leads to another server than when it was made: a proxy moves it between servers, or sends reads to replicas; name the primary itself")
	}
	if r.flushing != s.flushing {
		// The settings were changed under it. What they mean is looked up anew.
		if key, is := n.sessions.of(conn); is {
			n.sessions.forget(key)
		}
		return false, errConflict
	}
	m := n.facts.Load()
	if m == nil || m.version != r.meta {
		var err error
		if m, _, err = readMeta(ctx, conn); err != nil {
			return false, err
		}
		n.facts.Store(m)
	}
	if to := n.group.joined.Load(); to != nil {
		if err := m.check(to.MaxTTL, to.members); err != nil {
			return false, err
		}
		for _, other := range to.before {
			if seen := other.identity.Load(); seen != nil && *seen == s.identity {
				return false, misconfigured("this is the same server as the node %s: a server has one vote", other.name)
			}
		}
	}
	if v, _, _ := m.decide(s, r.now, 0); v != vote || m.version != r.meta {
		return false, nil
	}
	// Who only looks may have no right to write.
	if after := m.corrected(s); after != nil && n.group.joined.Load() != nil {
		if _, err := m.write(ctx, conn, after); err != nil {
			return false, err
		}
		return false, errConflict
	}
	return true, nil
}

// admit tries to admit the server. It returns "" if that may vote now, or why it may not.
// One request at a time tries; the others wait for the outcome.
func (n *Node) admit(ctx context.Context, s *session) (detail string, err error) {
	g := &n.group
	for {
		g.mu.Lock()
		if g.trying == nil {
			if time.Now().Before(g.until) && (g.detail != "" || g.err != nil) {
				detail, err = g.detail, g.err
				g.mu.Unlock()
				return detail, err
			}
			g.trying = make(chan struct{})
			go n.tryAdmission(g.trying)
		}
		trying := g.trying
		g.mu.Unlock()
		select {
		case <-trying:
			g.mu.Lock()
			detail, err = g.detail, g.err
			g.mu.Unlock()
			return detail, err
		case <-ctx.Done():
			return "its admission is under way", nil
		case <-n.patience.Done():
			return "", n.patience.Err()
		}
	}
}

// tryAdmission runs beside the request that began it, which may give up.
func (n *Node) tryAdmission(done chan struct{}) {
	g := &n.group
	ctx, cancel := context.WithTimeout(n.patience, admissionTimeout)
	defer cancel()
	detail, left, err := n.tryToAdmit(ctx)
	if err != nil && !permanent(err) && !errors.Is(err, errConflict) {
		detail, err = err.Error(), nil // it is out for now
	}
	g.mu.Lock()
	if g.detail, g.err, g.trying = detail, err, nil; left > 0 {
		g.until = time.Now().Add(min(left, retryAdmission))
	}
	g.mu.Unlock()
	close(done)
}

// tryToAdmit tries once. Left is for how long the same would be answered again.
func (n *Node) tryToAdmit(ctx context.Context) (detail string, left time.Duration, err error) {
	to := n.group.joined.Load()
	if to == nil {
		return "it is not admitted, and only who takes locks admits it (fenlock.New, fenlock run)", 0, nil
	}
	conn, s, err := n.conn(ctx)
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	m, now, err := readMeta(ctx, conn)
	if err != nil {
		return "", 0, err
	}
	if err := m.check(to.MaxTTL, to.members); err != nil {
		return "", 0, err
	}
	v, left, why := m.decide(s, now, to.MaxTTL)
	founds := to.New && m.Server == "" && v != vote
	switch {
	case v == vote:
		return "", 0, nil
	case v == goOn:
		after := *m
		after.Started, after.Volatile = s.started, s.volatile
		return n.recorded(m.write(ctx, conn, &after))
	case v == observe:
		after := *m
		after.Noticed, after.Since = s.identity, now.Microseconds()
		if _, _, err := n.recorded(m.write(ctx, conn, &after)); err != nil {
			return "", 0, err
		}
		return "it is another server than the one that was used: whether it lacks leases is not known", 0, nil
	case v == wait && !founds:
		return fmt.Sprintf("%s; voting starts in %d s", why, int(math.Ceil(left.Seconds()))), left, nil
	}
	// Nobody else's answer is waited for with a connection in hand.
	conn.Close()
	self := rebuilding.Self{Server: s.identity, Memory: m.lost(s), Untouched: true}
	ask, cancel := context.WithTimeout(ctx, admissionTimeout/2)
	others := rebuilding.Ask(ask, to.Group, n)
	cancel()
	isNew := allNew(self, others)
	if v == wait && !isNew {
		return fmt.Sprintf("%s; voting starts in %d s", why, int(math.Ceil(left.Seconds()))), left, nil
	}
	merged, err := rebuilding.Merge(len(to.Nodes), self, others)
	if err != nil {
		return err.Error(), retryAdmission, nil
	}
	seen := s
	if conn, s, err = n.conn(ctx); err != nil {
		return "", 0, err
	}
	// The verdict was on that run: another client may have admitted it since, and what both
	// have written may be lost.
	if s.identity != seen.identity || s.started != seen.started {
		return "the server has changed while it was admitted", 0, nil
	}
	if err := raise(ctx, conn, merged.Tokens); err != nil {
		return "", 0, err
	}
	detail, left, err = n.recorded(m.write(ctx, conn, m.admittedAs(s, to.MaxTTL, to.members, merged.Empty)))
	if err == nil && detail == "" && merged.Weak && to.Warn != nil {
		if isNew && m.Server == "" {
			to.Warn(n, "the servers are new, or all of them have lost their memory at once: tokens begin at the clients' clocks")
		} else {
			to.Warn(n, "node admitted without the registers of a majority: this is a new group, or a majority lost its memory at once; new tokens are larger than old ones only as far as the clients' clocks agree")
		}
	}
	return detail, left, err
}

// recorded is what is told of the outcome of a write of the facts.
func (n *Node) recorded(is bool, err error) (string, time.Duration, error) {
	if err == nil && !is {
		return "", 0, errConflict // another client was faster, and may have admitted it
	}
	return "", 0, err
}

// allNew reports whether all others of a group are as new as a server with this self: they
// answer and have nothing recorded, or were admitted as such, when this one was as well.
func allNew(self rebuilding.Self, others []*node.Registers) bool {
	return !slices.ContainsFunc(others, func(r *node.Registers) bool {
		return r == nil || r.Admitted && !slices.Contains(r.Empty, self.Memory) || !r.Admitted && (r.MaxTTL != 0 || len(r.Tokens) > 0)
	})
}

// raise makes the registers at least those of tokens, by stripe, in one statement: the
// rows are there, so that it inserts none.
func raise(ctx context.Context, conn *sql.Conn, tokens map[int]fence.Token) error {
	if len(tokens) == 0 {
		return nil
	}
	var rows strings.Builder
	for stripe, token := range tokens {
		if stripe < 0 || stripe >= node.Stripes || token > fence.MaxToken {
			return fmt.Errorf("another node has the register %d for stripe %d, which is none", uint64(token), stripe)
		}
		if rows.Len() > 0 {
			rows.WriteByte(',')
		}
		fmt.Fprintf(&rows, "(%d,%d,%d,0,x'',x'',x'')", stripe, random(), uint64(token))
	}
	_, err := conn.ExecContext(ctx, `INSERT INTO fenlock_stripes (stripe, version, token, turns, leases, waiters, notices) VALUES `+rows.String()+
		` ON DUPLICATE KEY UPDATE version = VALUES(version), token = GREATEST(token, VALUES(token))`)
	return err
}
