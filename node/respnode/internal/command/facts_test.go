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
		_, err := ParseInfo(replytest.Info(c.change...))
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%q: %v", c.change, err)
		case c.says != "" && (!errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v; want ErrMisconfigured with %q", c.change, err, c.says)
		}
	}
}

func TestFactsOfMemory(t *testing.T) {
	f, err := ParseInfo(replytest.Info())
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
		f, err := ParseInfo(replytest.Info(c.change...))
		if err != nil || f.Promoted != c.promoted || f.ScriptsFlushed != c.flushed {
			t.Errorf("%q: promoted %v, flushed %v, %v", c.change, f.Promoted, f.ScriptsFlushed, err)
		}
	}
}
