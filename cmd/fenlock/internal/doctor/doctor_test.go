package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
)

var errDown = errors.New("connection refused")

// group is n nodes, a to whatever, that all vote.
func group(n int) Group {
	g := Group{TTL: 10 * time.Second}
	var members []string
	for i := range n {
		members = append(members, string(rune('a'+i)))
	}
	for _, name := range members {
		g.Nodes = append(g.Nodes, admin.NodeInfo{Node: name, Examination: node.Examination{
			Product: "Valkey", Version: "8.0.10", Role: "primary", Server: "run of " + name, Memory: "memory of " + name,
			Member:  name,
			Address: "10.0.0." + name, RoundTrip: time.Millisecond, Clock: clockAt(0, 0),
			Admitted: true, MaxTTL: 30 * time.Second, Members: members,
		}})
	}
	return g
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// clockAt is a clock that is ahead, read some time after noon.
func clockAt(after, ahead time.Duration) node.ClockReading {
	return node.ClockReading{Here: noon.Add(after), Store: noon.Add(after + ahead)}
}

// at changes some nodes of a group.
func (g Group) at(change func(info *admin.NodeInfo, e *node.Examination), nodes ...int) Group {
	g.Nodes = slices.Clone(g.Nodes)
	for _, i := range nodes {
		change(&g.Nodes[i], &g.Nodes[i].Examination)
	}
	return g
}

// with changes the group itself.
func (g Group) with(change func(g *Group)) Group {
	change(&g)
	return g
}

// What becomes of a node.
func down(info *admin.NodeInfo, e *node.Examination) {
	info.Err = fmt.Errorf("%s: %w", info.Node, errDown)
	*e = node.Examination{Member: e.Member}
}

func misconfigured(info *admin.NodeInfo, e *node.Examination) {
	info.Err = fmt.Errorf("%s: %w: the password is wrong", info.Node, node.ErrMisconfigured)
	*e = node.Examination{Member: e.Member}
}

func waits(d time.Duration) func(*admin.NodeInfo, *node.Examination) {
	return func(_ *admin.NodeInfo, e *node.Examination) {
		e.Admitted, e.Rebuild, e.Wait, e.Why = false, true, d, "it was started a short time ago"
	}
}

// due has waited, and no client has asked it.
func due(_ *admin.NodeInfo, e *node.Examination) {
	e.Admitted, e.Rebuild, e.Untouched, e.Why = false, true, true, "nobody has asked it"
}

// fresh was never used.
func fresh(info *admin.NodeInfo, e *node.Examination) {
	due(info, e)
	e.MaxTTL, e.Members = 0, nil
}

func finding(f node.Finding) func(*admin.NodeInfo, *node.Examination) {
	return func(_ *admin.NodeInfo, e *node.Examination) { e.Findings = append(slices.Clone(e.Findings), f) }
}

// states is a word for each node.
func states(g Group) string {
	var words []string
	for _, s := range g.Standings() {
		words = append(words, string(s.State))
	}
	return strings.Join(words, " ")
}

func TestStandings(t *testing.T) {
	elsewhere := func(_ *admin.NodeInfo, e *node.Examination) { e.Members = []string{"a", "x", "y"} }
	for what, c := range map[string]struct {
		group  Group
		states string
	}{
		"all vote":             {group(3), "votes votes votes"},
		"one is down":          {group(3).at(down, 1), "votes down votes"},
		"one is misconfigured": {group(3).at(misconfigured, 1), "votes misconfigured votes"},
		"one waits":            {group(3).at(waits(time.Second), 1), "votes out votes"},
		"one is due":           {group(3).at(due, 1), "votes ready votes"},
		"one needs no rebuild": {group(3).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Admitted = false }, 1),
			"votes ready votes"},
		// Its registers are at two others, of which one is silent.
		"one is due and one down": {group(3).at(due, 1).at(down, 2), "votes out down"},
		"two are due":             {group(3).at(due, 1, 2), "votes ready ready"},
		// A majority has lost its memory: what is left is taken.
		"all are due":           {group(3).at(due, 0, 1, 2), "ready ready ready"},
		"a new group":           {group(3).at(fresh, 0, 1, 2), "ready ready ready"},
		"a new group, one down": {group(3).at(fresh, 0, 1).at(down, 2), "ready ready down"},
		"a new group, two down": {group(3).at(fresh, 0).at(down, 1, 2), "out down down"},
		// Three others are needed, and the silent one may be one of them.
		"of five, two due, one silent": {group(5).at(due, 0, 1).at(misconfigured, 4), "out out votes votes misconfigured"},
		"of five, one due, one silent": {group(5).at(due, 0).at(down, 4), "ready votes votes votes down"},
		"of five, two due, one waits":  {group(5).at(due, 0, 1).at(waits(time.Second), 4), "ready ready votes votes out"},
		"another group":                {group(3).at(elsewhere, 0), "misconfigured votes votes"},
		"another group keeps out":      {group(3).at(elsewhere, 0).at(due, 1), "misconfigured out votes"},
		"any members": {group(3).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Members = nil }, 0),
			"votes votes votes"},
		"members not known": {group(3).at(elsewhere,
			0).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Member = "" }, 1), "votes votes votes"},
		"MaxTTL": {group(3).with(func(g *Group) { g.MaxTTL = time.Minute }),
			"misconfigured misconfigured misconfigured"},
		"the same MaxTTL": {group(3).with(func(g *Group) { g.MaxTTL = 30 * time.Second }), "votes votes votes"},
		"the same server": {group(3).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Server = "run of a" },
			2), "votes votes misconfigured"},
	} {
		if got := states(c.group); got != c.states {
			t.Errorf("%s: %s; want %s", what, got, c.states)
		}
		for i, s := range c.group.Standings() {
			if (s.Why == "") != (s.State == Votes) && s.State != Ready || strings.Contains(s.Why, c.group.Nodes[i].Node+":") {
				t.Errorf("%s: %s is %s because of %q", what, c.group.Nodes[i].Node, s.State, s.Why)
			}
		}
	}
}

// Each finding has a group that has it, and one next to it that has not.
func TestExamine(t *testing.T) {
	second := time.Second
	offset := func(d time.Duration) func(*admin.NodeInfo, *node.Examination) {
		return func(_ *admin.NodeInfo, e *node.Examination) { e.Clock = clockAt(0, d) }
	}
	trip := func(d time.Duration) func(*admin.NodeInfo, *node.Examination) {
		return func(_ *admin.NodeInfo, e *node.Examination) { e.RoundTrip = d }
	}
	// A clock that gains d in two seconds.
	gains := func(d time.Duration) func(*Group) {
		return func(g *Group) {
			g.Later = group(len(g.Nodes)).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Clock = clockAt(2*second, 0) }, 0,
				1, 2).
				at(func(_ *admin.NodeInfo, e *node.Examination) { e.Clock = clockAt(2*second, d) }, 1).Nodes
		}
	}
	within := func(_ *admin.NodeInfo, e *node.Examination) { e.Clock.Within = second }
	host := func(address string) func(*admin.NodeInfo, *node.Examination) {
		return func(_ *admin.NodeInfo, e *node.Examination) { e.Address = address }
	}
	file := func(_ *admin.NodeInfo, e *node.Examination) { e.Role = "file" }
	records := func(d time.Duration) func(*admin.NodeInfo, *node.Examination) {
		return func(_ *admin.NodeInfo, e *node.Examination) { e.MaxTTL = d }
	}
	belongs := func(members ...string) func(*admin.NodeInfo, *node.Examination) {
		return func(_ *admin.NodeInfo, e *node.Examination) { e.Members = members }
	}
	for _, c := range []struct {
		check    string
		severity node.Severity
		with     Group
		nodes    string // that it is about
		without  Group
		says     string
	}{
		{"quorum", node.Error, group(3).at(down, 0, 1), "", group(3).at(down, 0), "1 of 3 nodes vote, and 2 are needed"},
		{"quorum", node.Error, group(3).at(waits(10*second), 0).at(waits(20*second), 1), "", group(3).at(due, 0, 1),
			"In 20s it will be enough"},
		{"quorum", node.Error, group(3).at(fresh, 0, 1, 2).at(waits(20*second), 0, 1, 2), "", group(3).at(fresh, 0, 1, 2),
			"--new-servers"},
		{"quorum", node.Error, group(3).at(waits(10*second), 0, 1).at(belongs("c", "x"), 2), "", group(3),
			"Waiting alone does not help"},
		{"quorum", node.Error, group(3).at(waits(10*second), 0).at(down, 1), "", group(3).at(waits(10*second), 0),
			"Waiting alone does not help"},
		{"quorum", node.Error, group(5).at(waits(10*second), 0, 1, 2), "", group(5).at(waits(10*second), 0),
			"In 10s it will be enough"},
		{"quorum", node.Error, group(1).at(down, 0), "a", group(1), "It cannot be used: no lock can be taken"},
		{"margin", node.Warning, group(5).at(down, 0).at(misconfigured, 1), "", group(5).at(down, 0), "if one more fails"},
		{"margin", node.Warning, group(4).at(down, 0), "", group(2), "3 of 4 nodes vote"},
		{"margin", node.Warning, group(3).at(waits(second), 0), "", group(3).at(due, 0), "2 of 3 nodes vote"},
		{"new-group", node.Note, group(3).at(fresh, 0, 1, 2), "", group(3).at(fresh, 0), "has anything recorded"},
		{"memory-lost", node.Warning, group(3).at(due, 0, 1), "", group(3).at(due, 0), "lost its memory at once"},
		{"one-node", node.Note, group(1), "", group(1).at(file, 0), "Three nodes"},
		{"even", node.Warning, group(2), "", group(3), "two nodes"},
		{"even", node.Note, group(4), "", group(5), "the loss of 1, as 3 do"},
		{"same-server", node.Error, group(3).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Server = "run of a" }, 2),
			"a c", group(3).at(down, 0, 2), "a and c are the same server"},
		{"members", node.Error, group(3).at(belongs("a", "x", "y"), 0, 1), "a b", group(3).at(belongs(), 0, 1),
			"overlap in a"},
		{"members", node.Error, group(3).at(belongs("x", "y", "z"), 2), "c", group(3).at(belongs("a", "b", "c"), 2),
			"no member in common"},
		{"members", node.Error, group(1).at(belongs("x", "y"), 0), "a", group(1).at(belongs("x"), 0), "no member in common"},
		{"max-ttl", node.Error, group(3).with(func(g *Group) { g.MaxTTL = time.Minute }), "a b c",
			group(3).with(func(g *Group) { g.MaxTTL = 30 * second }), "--max-ttl is 1m0s"},
		{"max-ttl-differs", node.Error, group(3).at(records(time.Minute), 1), "", group(3).at(records(0), 1),
			"30s at a, c; 1m0s at b"},
		{"same-host", node.Warning, group(3).at(host("10.0.0.9"), 0, 1), "a b", group(3).at(host("10.0.0.9"), 0),
			"Without them 1 of 3 are left"},
		{"same-host", node.Note, group(5).at(host("10.0.0.9"), 0, 1), "a b", group(5).at(host(""), 0, 1), "fail together"},
		{"same-host", node.Note, group(3).at(host("::ffff:127.0.0.1"), 0, 1, 2), "a b c", group(3), "fail together"},
		{"round-trip", node.Error, group(3).at(trip(600*time.Millisecond), 1), "b",
			group(3).at(trip(250*time.Millisecond), 1), "wait for 500ms"},
		{"round-trip", node.Warning, group(3).at(trip(300*time.Millisecond), 1), "b",
			group(3).at(trip(250*time.Millisecond), 1), "under load"},
		{"round-trip", node.Error, group(3).at(trip(26*time.Millisecond),
			1).with(func(g *Group) { g.TTL = 100 * time.Millisecond }), "b",
			group(3).at(trip(time.Second/2), 1).with(func(g *Group) { g.TTL = 30 * second }), "wait for 25ms"},
		// A file has more time.
		{"round-trip", node.Warning, group(1).at(file, 0).at(trip(1300*time.Millisecond), 0), "a",
			group(1).at(file, 0).at(trip(1200*time.Millisecond), 0), "wait for 2.5s"},
		{"ttl", node.Error, group(3).with(func(g *Group) { g.TTL = time.Minute }), "a b c",
			group(3).with(func(g *Group) { g.TTL = 30 * second }), "--ttl of 30s at most"},
		{"clock-offset", node.Warning, group(3).at(offset(time.Hour), 1), "b", group(3).at(offset(999*time.Millisecond), 1),
			"1h0m0s ahead of most others'"},
		{"clock-offset", node.Warning, group(3).at(offset(-time.Hour), 2), "c",
			group(3).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Clock = node.ClockReading{} }, 2),
			"1h0m0s behind most others'"},
		{"clock-offset", node.Warning, group(1).at(offset(time.Hour), 0), "a", group(1), "ahead of this machine's"},
		{"clock-offset", node.Warning, group(3).at(offset(1100*time.Millisecond), 1), "b",
			group(3).at(offset(1100*time.Millisecond), 1).at(trip(second), 1), "1.1s"},
		{"clock-here", node.Warning, group(3).at(offset(-time.Hour), 0, 1, 2), "", group(3), "1h0m0s ahead of the servers'"},
		{"clock-rate", node.Error, group(3).with(gains(30 * time.Millisecond)), "b",
			group(3).with(gains(20 * time.Millisecond)), "+1.5 %"},
		{"clock-rate", node.Error, group(3).with(gains(-time.Hour)), "b", group(3).with(gains(-20 * time.Millisecond)),
			"-180000.0 %"},
		// A store that tells whole seconds.
		{"clock-rate", node.Error, group(3).with(gains(990 * time.Millisecond)), "b",
			group(3).at(within, 1).with(gains(990 * time.Millisecond)), "+49.5 %"},
		{"clock-offset", node.Warning, group(3).at(offset(1100*time.Millisecond), 1), "b",
			group(3).at(offset(1100*time.Millisecond), 1).at(within, 1), "1.1s"},
		{"out", node.Warning, group(5).at(waits(10*second), 0).at(waits(11*second), 2), "a c", group(5).at(due, 0, 2),
			"for another 11s"},
		{"ready", node.Note, group(3).at(due, 0, 2), "a c", group(3), "nobody has asked it"},
		{"rebuild", node.Error, group(3).at(due, 0).at(down, 1), "a", group(3).at(due, 0),
			"must be rebuilt from 2 other nodes"},
		{"rebuild", node.Error, group(3).at(due, 0).at(belongs("x", "y", "z"), 1), "a", group(3).at(due, 0),
			"b belongs to another group"},
		{"rebuild", node.Error, group(3).at(due, 0).at(belongs("x", "y", "z"), 1), "a", group(3).at(due, 0),
			"Start no empty server"},
		{"rebuild", node.Error, group(3).at(waits(10*second), 0).at(down, 1), "a", group(3).at(waits(10*second), 0),
			"and when it has waited, its registers must be rebuilt from 2"},
		{"down", node.Warning, group(3).at(down, 0), "a",
			group(3).at(down, 0).at(finding(node.Found("hangs", node.Warning, "It hangs.")), 0), "Connection refused."},
		{"misconfigured", node.Error, group(3).at(misconfigured, 0), "a",
			group(3).at(misconfigured, 0).at(finding(node.Found("password", node.Error, "It is wrong.")), 0),
			"The password is wrong."},
	} {
		found := c.with.Examine()
		i := slices.IndexFunc(found, func(f Finding) bool {
			return f.Check == c.check && f.Severity == c.severity && strings.Join(f.Nodes, " ") == c.nodes &&
				strings.Contains(f.Reason+" "+f.Advice, c.says)
		})
		if i < 0 {
			t.Errorf("%s: there is no %v about %q with %q in\n%s", c.check, c.severity, c.nodes, c.says, text(found))
		}
		for _, f := range found {
			if !strings.HasSuffix(f.Reason, ".") || f.Advice != "" && !strings.HasSuffix(f.Advice, ".") ||
				strings.Contains(f.Reason+f.Advice, "%!") {
				t.Errorf("%s: these are no sentences: %q, %q", f.Check, f.Reason, f.Advice)
			}
		}
		if other := c.without.Examine(); slices.ContainsFunc(other,
			func(f Finding) bool { return f.Check == c.check && f.Severity == c.severity }) {
			t.Errorf("%s is also in\n%s", c.check, text(other))
		}
	}
}

func text(found []Finding) (lines string) {
	for _, f := range found {
		lines += fmt.Sprintf("%v %s %v: %s -> %s\n", f.Severity, f.Check, f.Nodes, f.Reason, f.Advice)
	}
	return lines
}

// Of a group in which all is well, nothing is said.
func TestNothingToSay(t *testing.T) {
	for _, n := range []int{3, 5, 7} {
		g := group(n).with(func(g *Group) { g.MaxTTL = 30 * time.Second })
		g.Later = g.Nodes
		if found := g.Examine(); found != nil {
			t.Errorf("%d nodes:\n%s", n, text(found))
		}
	}
}

// The order is that of what matters, and the same each time.
func TestOrder(t *testing.T) {
	g := group(4).at(down, 0).at(finding(node.Found("x", node.Warning, "Both.")), 1,
		3).at(finding(node.Found("y", node.Error, "One.")), 2).
		at(finding(node.Found("z", node.Note, "Last.")), 3)
	for range 20 {
		var order []string
		for _, f := range g.Examine() {
			order = append(order, fmt.Sprintf("%v %s %s", f.Severity, f.Check, strings.Join(f.Nodes, "")))
		}
		const want = "error y c, warning margin , warning x bd, warning down a, note even , note z d"
		if got := strings.Join(order, ", "); got != want {
			t.Fatal(got)
		}
	}
}

func TestWorst(t *testing.T) {
	if got := Worst(nil); got != node.Note {
		t.Error(got)
	}
	if got := Worst(group(3).at(down, 0, 1).Examine()); got != node.Error {
		t.Error(got)
	}
}

func TestOffset(t *testing.T) {
	g := group(1).at(func(_ *admin.NodeInfo, e *node.Examination) { e.Clock = clockAt(0, -3*time.Second) }, 0)
	if ahead, doubt, known := Offset(g.Nodes[0]); ahead != -3*time.Second || doubt != time.Millisecond/2 || !known {
		t.Error(ahead, doubt, known)
	}
	if _, _, known := Offset(admin.NodeInfo{}); known {
		t.Error("the clock of nothing is known")
	}
}

// A cluster is never new, so that it waits whatever a client asserts of it.
func TestNothingIsAssertedOfACluster(t *testing.T) {
	slot := finding(node.Found("slot", node.Note, "It is a slot."))
	for what, c := range map[string]struct {
		group Group
		want  bool
	}{
		"a server":  {group(1).at(fresh, 0).at(waits(20*time.Second), 0), true},
		"a cluster": {group(1).at(fresh, 0).at(waits(20*time.Second), 0).at(slot, 0), false},
	} {
		said := text(c.group.Examine())
		if strings.Contains(said, "--new-servers") != c.want || !strings.Contains(said, "In 20s") {
			t.Errorf("%s: %s", what, said)
		}
	}
}
