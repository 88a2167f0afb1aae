package admission

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// What a server says of itself decides what is done with it first.
func TestFactsOf(t *testing.T) {
	const maxTTL = 30 * time.Second
	const out = 30*time.Second + 302*time.Millisecond + uptimeSlack // the longest lease, 1 % and 2 ms, rounding of INFO
	const long = time.Hour
	recorded := admit.Terms{MaxTTL: maxTTL, Members: "a"}
	for _, c := range []struct {
		name  string
		f     command.Facts
		want  admit.Do
		left  time.Duration
		cause node.Cause
	}{
		{"first start, just now", command.Facts{}, admit.Wait, out, node.Restarted},
		{"first start, a second ago", command.Facts{Uptime: time.Second}, admit.Wait, out - time.Second, node.Restarted},
		{"first start, a nanosecond short", command.Facts{Uptime: out - 1}, admit.Wait, 1, node.Restarted},
		{"first start, long enough ago", command.Facts{Uptime: out}, admit.Ask, 0, 0},
		// As long as the mark of before is there, a client that knows the id of before makes leases.
		{"restarted with a file", command.Facts{Marked: "a", Terms: recorded, Uptime: time.Second}, admit.Note, 0, 0},
		{"restarted with a file long ago", command.Facts{Marked: "a", Terms: recorded, Uptime: long}, admit.Note, 0, 0},
		{"the same, and its mark was removed", command.Facts{Terms: recorded, Uptime: long}, admit.Ask, 0, 0},
		{"the same, and a script was loaded since the start",
			command.Facts{Terms: recorded, Uptime: long, ScriptsEverLoaded: true}, admit.Note, 0, 0},

		{"the mark is this run's", command.Facts{Marked: "b", Terms: recorded, ScriptsLoaded: true, ScriptsReady: true,
			Format: "3"}, admit.Vote, 0, 0},
		{"of an older format", command.Facts{Marked: "b", Terms: recorded, ScriptsLoaded: true, ScriptsReady: true,
			Format: "2"}, admit.Admit, 0, 0},
		{"a script is missing", command.Facts{Marked: "b", Terms: recorded, ScriptsLoaded: true, Format: "3"}, admit.Admit, 0,
			0},
		{"the longest lease is not recorded",
			command.Facts{Marked: "b", ScriptsLoaded: true, ScriptsReady: true, Format: "3"}, admit.Admit, 0, 0},
		{"script cache flushed only", command.Facts{Marked: "b", Terms: recorded, ScriptsFlushed: true, Uptime: long,
			Format: "3"}, admit.Admit, 0, 0},
		{"admitted after a promotion", command.Facts{Marked: "b", Terms: recorded, Promoted: true, Uptime: long, Format: "3"},
			admit.Admit, 0, 0},

		{"durable before and after", command.Facts{Marked: "a", Terms: recorded, WasDurable: true, AOF: true,
			FsyncAlways: true}, admit.Admit, 0, 0},
		{"durable, but something was denied",
			command.Facts{Marked: "a", Terms: recorded, WasDurable: true, AOF: true, FsyncAlways: true, Denied: true},
			admit.Note, 0, 0},
		{"durable before, fsync every second now", command.Facts{Marked: "a", Terms: recorded, WasDurable: true, AOF: true},
			admit.Note, 0, 0},
		{"durable before, no file now", command.Facts{Marked: "a", Terms: recorded, WasDurable: true, FsyncAlways: true},
			admit.Note, 0, 0},
		{"durable only now", command.Facts{Marked: "a", Terms: recorded, AOF: true, FsyncAlways: true}, admit.Note, 0, 0},
		{"durable, but wiped", command.Facts{AOF: true, FsyncAlways: true}, admit.Wait, out, node.Restarted},
		{"durable, but promoted", command.Facts{Marked: "a", Terms: recorded, WasDurable: true, AOF: true, FsyncAlways: true,
			Promoted: true, Uptime: long}, admit.Note, 0, 0},

		{"promoted, up for long", command.Facts{Marked: "a", Terms: recorded, Promoted: true, Uptime: long}, admit.Note, 0,
			0},
		{"promoted, without data", command.Facts{Promoted: true, Uptime: long}, admit.Note, 0, 0},
		{"flushed", command.Facts{ScriptsLoaded: true, Uptime: long}, admit.Note, 0, 0},
		{"flushed, scripts too", command.Facts{ScriptsFlushed: true, Uptime: long}, admit.Note, 0, 0},
		{"a file was loaded under loaded scripts",
			command.Facts{Marked: "a", Terms: recorded, WasDurable: true, AOF: true, FsyncAlways: true, ScriptsLoaded: true},
			admit.Note, 0, 0},
	} {
		c.f.ReplID, c.f.RunID = "b", "r"
		v := admit.Decide(FactsOf(c.f), admit.Client{Terms: recorded, Nodes: 1}, nil, false)
		if v.Do != c.want || v.Absence.Wait != c.left || v.Absence.Cause != c.cause {
			t.Errorf("%s: %+v; want %v, %v, %v", c.name, v, c.want, c.left, c.cause)
		}
	}
}

// A member of a cluster with nothing recorded is not called promoted, whatever it was. The tag is
// new, or another member had the slot.
func TestCauseOfAMember(t *testing.T) {
	keys := new(command.Keys).InCluster()
	of := func(recorded admit.Terms) node.Cause {
		f, err := keys.ParseInfo(replytest.Info("server_mode", "cluster", "cluster_enabled", "1", "second_repl_offset", "7"))
		if err != nil {
			t.Fatal(err)
		}
		f.Terms = recorded
		return FactsOf(f).Cause
	}
	if got := of(admit.Terms{}); got != node.Unused {
		t.Errorf("with nothing recorded: %v", got)
	}
	if got := of(admit.Terms{MaxTTL: time.Minute}); got != node.Replaced {
		t.Errorf("with what another member has recorded: %v", got)
	}
}

// A server is not new because a person has removed the terms from a backup: it has the format.
func TestRecorded(t *testing.T) {
	for _, f := range []command.Facts{{Format: "3"}, {Marked: "a"}, {Terms: admit.Terms{Members: "a"}},
		{Terms: admit.Terms{MaxTTL: 1}}} {
		if !FactsOf(f).Recorded {
			t.Errorf("%+v has nothing recorded", f)
		}
	}
	if f := (command.Facts{Candidate: "a client has looked"}); FactsOf(f).Recorded {
		t.Errorf("%+v has something recorded", f)
	}
}

// In which order the members were recorded costs nothing later.
func TestCheckAllocatesNothing(t *testing.T) {
	n := &named{name: "b"}
	v := New(n, up{}, &command.Keys{}, command.Errors{}, AllReplicas)
	if err := v.Join(node.Group{Nodes: []node.Node{n, &named{name: "a"}}, MaxTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	v.server.Store(&Server{voting: v, RunID: "run", terms: admit.Terms{MaxTTL: time.Minute, Members: "b a"}})
	if n := testing.AllocsPerRun(100, func() {
		if v.Ready() == nil {
			t.Fatal("not ready")
		}
	}); n > 0 {
		t.Errorf("%v allocations for each request", n)
	}
}

// up is a link that has one connection.
type up struct{ resp.Link }

func (up) Up(uint64) bool { return true }
func (up) Pooled() bool   { return false }

// named is a node that is only called something.
type named struct {
	node.Node
	name string
}

func (n *named) String() string { return n.name }
func (n *named) Engine() any    { return n }
