package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
)

func TestFacts(t *testing.T) {
	for _, c := range []struct {
		change []string
		says   string // "" for a server that can be a node
	}{
		{nil, ""},
		{[]string{"server_mode", "-", "redis_mode", "standalone"}, ""},
		{[]string{"redis_version", "7.0.0"}, ""},
		{[]string{"redis_version", "8.2.1"}, ""},
		{[]string{"redis_version", "10.0.0"}, ""},
		{[]string{"redis_version", "6.2.14"}, "version 7 or later"},
		{[]string{"redis_version", "5.0.7"}, "version 7 or later"},
		{[]string{"redis_version", "unstable"}, "version 7 or later"},
		{[]string{"server_mode", "sentinel", "role", "-"}, "sentinel"},
		{[]string{"server_mode", "cluster"}, "cluster"},
		{[]string{"server_mode", "-", "redis_mode", "cluster"}, "cluster"},
		{[]string{"cluster_enabled", "1"}, "cluster"},
		{[]string{"role", "slave"}, "replica"},
		{[]string{"maxmemory", "1000000", "maxmemory_policy", "allkeys-lru"}, "allkeys-lru"},
		{[]string{"maxmemory", "1000000", "maxmemory_policy", "volatile-ttl"}, "volatile-ttl"},
		{[]string{"maxmemory", "1000000"}, ""},
		{[]string{"maxmemory_policy", "allkeys-lru"}, ""}, // without a limit nothing is evicted
		{[]string{"run_id", "-"}, "lacks"},
		{[]string{"redis_version", "-"}, "lacks"},
		{[]string{"role", "-"}, "lacks"},
		{[]string{"uptime_in_seconds", "-"}, "lacks"},
		{[]string{"uptime_in_seconds", "soon"}, "lacks"},
	} {
		_, err := new(Keys).ParseInfo(replytest.Info(c.change...))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%q: %v", c.change, err)
		case c.says != "" && (!errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v; want ErrMisconfigured with %q", c.change, err, c.says)
		}
	}
}

func TestFactsOfMemory(t *testing.T) {
	f, err := new(Keys).ParseInfo(replytest.Info())
	if err != nil || f.RunID != "0123abc" || f.Uptime != 90*time.Second || f.Promoted || f.ScriptsFlushed || f.AOF {
		t.Errorf("%+v, %v", f, err)
	}
	for _, c := range []struct {
		change   []string
		promoted bool
		flushed  bool
	}{
		{[]string{"second_repl_offset", "1234"}, true, false},
		{[]string{"second_repl_offset", "-"}, true, false}, // not known is not "no"
		{[]string{"cmdstat_script|flush", "calls=1,usec=2"}, false, true},
		{[]string{"cmdstat_config|resetstat", "calls=1,usec=2"}, false, true},
		{[]string{"cmdstat_script|load", "calls=1,usec=2"}, false, false},
	} {
		f, err := new(Keys).ParseInfo(replytest.Info(c.change...))
		if err != nil || f.Promoted != c.promoted || f.ScriptsFlushed != c.flushed {
			t.Errorf("%q: promoted %v, flushed %v, %v", c.change, f.Promoted, f.ScriptsFlushed, err)
		}
	}
}

func TestReplicas(t *testing.T) {
	const one = "slave0:ip=10.0.0.1,port=6379,state=online,offset=98,lag=0"
	for _, c := range []struct {
		lines []string
		want  Replicas
	}{
		{[]string{"connected_slaves:0"}, Replicas{None: true}},
		{nil, Replicas{}}, // not known is not "none"
		{[]string{"connected_slaves:1", one}, Replicas{InStep: 1}},
		{[]string{"connected_slaves:1", one + ",type=replica"}, Replicas{InStep: 1}},
		{[]string{one, "slave1:ip=10.0.0.1,port=6379,state=online,offset=98,lag=9"}, Replicas{InStep: 1}}, // twice the same
		{[]string{one, "slave1:ip=10.0.0.1,port=6380,state=online,offset=98,lag=9"}, Replicas{InStep: 2}},
		{[]string{one, "slave1:ip=10.0.0.2,port=0,state=online,offset=0,lag=0"}, Replicas{InStep: 1}}, // SYNC by a tool
		{[]string{one, "slave1:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0"}, Replicas{InStep: 1}},
		{[]string{one, "slave1:ip=10.0.0.2,port=6379,state=online,offset=98,lag=11"}, Replicas{InStep: 1}}, // silent
		{[]string{"slave_repl_offset:98", "slave_priority:100", "slaves:state=online"}, Replicas{}},
	} {
		if got := ReplicasOf(strings.Join(c.lines, "\r\n") + "\r\n"); got != c.want {
			t.Errorf("%q: %+v; want %+v", c.lines, got, c.want)
		}
	}
}

func TestMarks(t *testing.T) {
	for _, n := range []int{0, 1, 2, mostReplicas} {
		if id, got := SplitMark(markOf("4567def", n)); id != "4567def" || got != n {
			t.Errorf("%d replicas: %q, %d", n, id, got)
		}
	}
	for _, mark := range []string{"4567def/", "4567def/0", "4567def/-1", "4567def/01", "4567def/x", "4567def/9999999",
		"a/1/1"} {
		if id, n := SplitMark(mark); id != mark || n != 0 {
			t.Errorf("%q is of %q with %d replicas", mark, id, n)
		}
	}
}

// A server that has kept its memory may be an old primary: it needs the replicas that it had. Any
// other begins with those that it has.
func TestReplicasOfTheNextMark(t *testing.T) {
	durable := Facts{ReplID: "new", AOF: true, FsyncAlways: true, WasDurable: true}
	for _, c := range []struct {
		mark    string
		durable bool
		inStep  int
		had     int
		want    int
	}{
		{"", false, 0, 0, 0}, {"", false, 2, 0, 2}, {"old/2", false, 1, 0, 1},
		{"old/2", true, 0, 0, 2}, {"old/1", true, 2, 0, 2}, {"new/2", false, 0, 0, 2},
		{"", false, 0, 1, 1}, {"", false, 2, 1, 2}, {"", true, 0, 1, 1},
	} {
		f := Facts{ReplID: "new"}
		if c.durable {
			f = durable
		}
		f.Replicas.InStep = c.inStep
		f.Marked, f.Recorded = SplitMark(c.mark)
		f.had = c.had
		if got := f.witnesses(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
