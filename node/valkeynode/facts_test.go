package valkeynode

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
)

// infoWith returns the reply of a healthy server, with fields changed. A value
// of "-" leaves the field out.
func infoWith(change ...string) string {
	fields := [][2]string{
		{"redis_version", "7.2.4"}, {"server_mode", "standalone"}, {"run_id", "0123abc"}, {"master_replid", "4567def"}, {"uptime_in_seconds", "90"},
		{"maxmemory", "0"}, {"maxmemory_policy", "noeviction"}, {"aof_enabled", "0"},
		{"role", "master"}, {"second_repl_offset", "-1"}, {"cluster_enabled", "0"},
	}
	text := "# Server\r\n"
	for i := 0; i < len(change); i += 2 {
		fields = append(fields, [2]string{change[i], change[i+1]})
	}
	last := make(map[string]string)
	for _, f := range fields {
		last[f[0]] = f[1]
	}
	for name, value := range last {
		if value != "-" {
			text += name + ":" + value + "\r\n"
		}
	}
	return text
}

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
		f, err := parseInfo(infoWith(c.change...))
		if err == nil {
			err = f.check()
		}
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%q: %v", c.change, err)
		case c.says != "" && (!errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v; want ErrMisconfigured with %q", c.change, err, c.says)
		}
	}
}

func TestFactsOfMemory(t *testing.T) {
	f, err := parseInfo(infoWith())
	if err != nil || f.runID != "0123abc" || f.uptime != 90*time.Second || f.promoted || f.scriptsFlushed || f.aof {
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
		f, err := parseInfo(infoWith(c.change...))
		if err != nil || f.promoted != c.promoted || f.scriptsFlushed != c.flushed {
			t.Errorf("%q: promoted %v, flushed %v, %v", c.change, f.promoted, f.scriptsFlushed, err)
		}
	}
}
