package valkeynode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
)

// admissionTimeout bounds one try to admit a server.
const admissionTimeout = 5 * time.Second

// retryAdmission is how long an admission that failed for want of other nodes
// is not tried again.
const retryAdmission = 200 * time.Millisecond

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.group != nil && (!slices.EqualFunc(n.group.Nodes, g.Nodes, sameEngine) || n.group.MaxTTL != g.MaxTTL) {
		return errors.New("it belongs to another group already, with other nodes or another MaxTTL")
	}
	n.group = &g
	var earlier []*Node
	for _, member := range g.Nodes {
		other, ok := member.Engine().(*Node)
		if other == n {
			break
		}
		if ok {
			earlier = append(earlier, other)
		}
	}
	n.earlier.Store(&earlier)
	return nil
}

// sameEngine looks through wrappers.
func sameEngine(a, b node.Node) bool { return a.Engine() == b.Engine() }

// rejoin tries to admit the server. It returns "" if it is admitted now, or why
// it is not; the error is for what waiting does not mend.
func (n *Node) rejoin(ctx context.Context, s *server) (string, error) {
	n.mu.Lock()
	group, out := n.group, n.out
	n.mu.Unlock()
	if group == nil {
		return "the node was not joined to a group; fenlock.New does it", nil
	}
	if out != nil && out.runID == s.runID && time.Now().Before(out.until) {
		return out.detail, nil
	}
	f, err := n.fly(ctx, &n.joining, admissionTimeout, func(ctx context.Context, f *flight) {
		f.detail, f.err = n.admission(ctx, *group)
	})
	if err != nil {
		return fmt.Sprintf("its admission is under way (%v)", err), nil
	}
	return f.detail, f.err
}

// admission does what ARCHITECTURE.md says under "A server that restarts".
func (n *Node) admission(ctx context.Context, group node.Group) (string, error) {
	f, err := n.gather(ctx)
	if err != nil {
		return n.trouble(err)
	}
	maxTTL := max(group.MaxTTL, f.maxTTL)
	verdict, left, err := n.decide(ctx, f, maxTTL)
	if err != nil {
		return n.trouble(err)
	}
	merged := rebuild.Result{Empty: f.empty} // kept, unless the registers are rebuilt
	if verdict == rebuildFirst {
		self := rebuild.Self{Server: f.runID, Memory: f.replID, Untouched: f.untouched()}
		merged, err = rebuild.Merge(len(group.Nodes), self, n.askOthers(ctx, group))
		if err != nil {
			n.warn("node is out: " + err.Error())
			return n.absent(f.runID, retryAdmission, err.Error()), nil
		}
		// The others may know of longer leases than this client does.
		verdict, left, err = n.decide(ctx, f, max(maxTTL, merged.MaxTTL))
		if err != nil {
			return n.trouble(err)
		}
	}
	if verdict == waitRun || verdict == waitNow {
		until := time.Now().Add(left)
		detail := fmt.Sprintf("%s; it is out until %s", f.because(), until.Format(time.TimeOnly))
		n.warn("node is out: " + detail)
		return n.absent(f.runID, left, detail), nil
	}
	// What the nodes have recorded counts, so that all clients agree.
	recorded := max(f.maxTTL, merged.MaxTTL)
	if recorded == 0 {
		recorded = group.MaxTTL
	}
	if err := n.admit(ctx, f, recorded, merged); err != nil {
		return n.trouble(err)
	}
	n.mu.Lock()
	n.warned = "" // should it go out once more, that is news
	n.mu.Unlock()
	if merged.Weak {
		n.warn("node admitted without the registers of a majority: this is a new group, or a majority lost its memory at once; new tokens are larger than old ones only as far as the clients' clocks agree")
	}
	return "", nil
}

// trouble returns what an error means for a server that is to be admitted: a
// reason to be out for now, or an error if waiting does not help.
func (n *Node) trouble(err error) (string, error) {
	err = n.warnIfMisconfigured(n.describe(err))
	if errors.Is(err, node.ErrMisconfigured) {
		return "", err
	}
	return err.Error(), nil
}

// decide is the function decide, with the verdict waitNow followed up.
func (n *Node) decide(ctx context.Context, f facts, maxTTL time.Duration) (verdict, time.Duration, error) {
	v, left := decide(f, maxTTL)
	if v != waitNow {
		return v, left, nil
	}
	since, err := n.notice(ctx, f.replID)
	if err != nil {
		return v, 0, err
	}
	if left = quarantine(maxTTL) - since; left > 0 {
		return waitNow, left, nil
	}
	return rebuildFirst, 0, nil
}

// absent remembers why the server is out, so that not every request asks again.
func (n *Node) absent(runID string, left time.Duration, detail string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out = &absence{runID: runID, until: time.Now().Add(left), detail: detail}
	return detail
}

// gather asks the server for everything that decide needs.
func (n *Node) gather(ctx context.Context) (facts, error) {
	b := n.client.B
	shas := make([]string, len(operations))
	for i, s := range operations {
		shas[i] = s.sha
	}
	replies, err := n.doMulti(ctx,
		// First of all: should the data be flushed at any time from here on, this
		// candidate is gone, and admit.lua notices.
		b().Hsetnx().Key(n.registers).Field("candidate").Value(rand.Text()).Build(),
		b().Hmget().Key(n.registers).Field("candidate", "admitted", "maxttl", "durable", "empty").Build(),
		b().Info().Build(),
		b().Info().Section("commandstats").Build(),
		b().ScriptExists().Sha1(shas...).Build(),
		b().ConfigGet().Parameter("appendfsync", "no-appendfsync-on-rewrite").Build(),
	)
	if err != nil {
		return facts{}, err
	}
	info, err := replies[2].ToString()
	if err != nil {
		return facts{}, err
	}
	stats, err := replies[3].ToString()
	if err != nil {
		return facts{}, err
	}
	f, err := parseInfo(info + stats)
	if err == nil {
		err = f.check()
	}
	if err == nil {
		err = replies[0].Error() // less telling than what check finds
	}
	if err != nil {
		return facts{}, err
	}
	fields, err := replies[1].AsStrSlice()
	if err != nil {
		return facts{}, err
	}
	f.candidate, f.marked = fields[0], fields[1]
	f.maxTTL = parseMilliseconds(fields[2])
	f.wasDurable = fields[3] == "1"
	f.empty = strings.Fields(fields[4])
	loaded, err := replies[4].AsIntSlice()
	if err != nil {
		return facts{}, err
	}
	f.scriptsLoaded = slices.Contains(loaded, 1)
	// Managed servers deny CONFIG. Then nobody can know, and the safe answer is no.
	if config, err := replies[5].AsStrMap(); err == nil {
		f.fsyncAlways = config["appendfsync"] == "always" && config["no-appendfsync-on-rewrite"] == "no"
	}
	return f, nil
}

func parseMilliseconds(s string) time.Duration {
	ms, _ := strconv.ParseInt(s, 10, 64)
	return time.Duration(ms) * time.Millisecond
}

// notice records, or reads, when it was first noticed that the server lost its
// memory.
func (n *Node) notice(ctx context.Context, replID string) (since time.Duration, err error) {
	reply, err := n.do(ctx, n.client.B().Eval().Script(noticeText).Numkeys(1).Key(n.registers).Arg(replID).Build())
	if err != nil {
		return 0, err
	}
	ms, err := reply.AsInt64()
	if err != nil {
		return 0, err
	}
	if ms < 0 {
		return 0, errRestarted
	}
	return time.Duration(ms) * time.Millisecond, nil
}

var errRestarted = errors.New("it was restarted or flushed meanwhile")

// admit raises the registers, marks the server as admitted, and loads the scripts.
func (n *Node) admit(ctx context.Context, f facts, maxTTL time.Duration, r rebuild.Result) error {
	durable := "0"
	if f.durable() {
		durable = "1"
	}
	args := []string{f.replID, f.candidate, strconv.FormatInt(maxTTL.Milliseconds(), 10), durable, strings.Join(r.Empty, " ")}
	for _, stripe := range slices.Sorted(maps.Keys(r.Tokens)) {
		args = append(args, strconv.Itoa(stripe), r.Tokens[stripe].String())
	}
	reply, err := n.do(ctx, n.client.B().Eval().Script(admitText).Numkeys(1).Key(n.registers).Arg(args...).Build())
	if err != nil {
		return err
	}
	if text, err := reply.ToString(); err != nil || text != "admitted" {
		return errors.Join(errRestarted, err)
	}
	// Should the server restart in between, the scripts are loaded beside no mark
	// or an old one, and refuse.
	for _, s := range operations {
		reply, err := n.do(ctx, n.client.B().ScriptLoad().Script(s.text).Build())
		if err != nil {
			return err
		}
		if sha, _ := reply.ToString(); sha != s.sha {
			return fmt.Errorf("the server names the script %s %q, not %q", s.name, sha, s.sha)
		}
	}
	return nil
}

// askOthers asks the other nodes of the group for their registers. Two servers
// that wait for each other's answer must not use up the time of the admission
// itself.
func (n *Node) askOthers(ctx context.Context, group node.Group) []*node.Registers {
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout/2)
	defer cancel()
	return rebuild.Ask(ctx, group, n)
}

// Registers implements node.Rejoiner. It reads in one transaction, so that
// the registers and what tells whether they count belong together.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r := node.Registers{Tokens: make(map[int]fence.Token)}
	if _, err := n.look(ctx); err != nil {
		return r, n.fail(err)
	}
	replies, err := n.doMulti(ctx,
		n.client.B().Multi().Build(),
		n.client.B().Info().Build(),
		n.client.B().Hgetall().Key(n.registers).Build(),
		n.client.B().Exec().Build(),
	)
	if err != nil {
		return r, n.fail(err)
	}
	results, err := exec(replies)
	if err != nil {
		return r, n.fail(err)
	}
	info, err := results[0].ToString()
	if err != nil {
		return r, n.fail(err)
	}
	f, err := parseInfo(info)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return r, n.fail(err)
	}
	fields, err := results[1].AsStrMap()
	if err != nil {
		return r, n.fail(err)
	}
	r.Server, r.Memory = f.runID, f.replID
	r.Admitted = fields["admitted"] == f.replID
	r.Empty = strings.Fields(fields["empty"])
	r.MaxTTL = parseMilliseconds(fields["maxttl"])
	for field, value := range fields {
		stripe, err := strconv.Atoi(field)
		if err != nil {
			continue // one of the named fields
		}
		token, err := fence.Parse(value)
		if err != nil || stripe < 0 || stripe >= node.Stripes {
			return r, n.fail(fmt.Errorf("the registers' key %q holds the field %q that is not a register", n.registers, field))
		}
		r.Tokens[stripe] = token
	}
	return r, nil
}

// warn tells the group once.
func (n *Node) warn(message string) {
	n.mu.Lock()
	group := n.group
	// The time of return moves by rounding; that is not news.
	news, _, _ := strings.Cut(message, ";")
	again := news == n.warned
	n.warned = news
	n.mu.Unlock()
	if group != nil && group.Warn != nil && !again {
		group.Warn(n, message)
	}
}

// warnIfMisconfigured passes err through, and tells the group if a person must
// mend it.
func (n *Node) warnIfMisconfigured(err error) error {
	if errors.Is(err, node.ErrMisconfigured) {
		n.warn(err.Error())
	}
	return err
}
