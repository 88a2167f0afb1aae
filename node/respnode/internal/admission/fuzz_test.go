package admission

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
)

// FuzzInfo reads whatever a server could say of itself. One that passes is what a
// node must be, by a reading of its own words line by line.
func FuzzInfo(f *testing.F) {
	for _, change := range [][]string{
		nil, {"server_mode", "-", "redis_mode", "standalone"}, {"redis_version", "6.2.14"},
		{"server_mode", "sentinel", "role", "-"}, {"cluster_enabled", "1"}, {"role", "slave"},
		{"maxmemory", "1000000", "maxmemory_policy", "allkeys-lru"}, {"maxmemory", "1000000"}, {"run_id", "-"},
		{"master_replid", ""}, {"uptime_in_seconds", "-1"},
		{"uptime_in_seconds", "9000000000"}, {"second_repl_offset", "77"}, {"cmdstat_script|flush", "calls=1"},
		{"cmdstat_script|load", "calls=1"}, {"redis_version", "7"}, {"redis_version", "+7.0"},
	} {
		f.Add(replytest.Info(change...), "", false, uint16(30))
		f.Add(replytest.Info(change...), "4567def", true, uint16(0))
	}
	for _, text := range []string{"", ":", "\n", "role:master\r\nrole:slave\r\n", "role : master", "\xff:\xff"} {
		f.Add(text, "x", true, uint16(1))
	}
	f.Fuzz(func(t *testing.T, text, marked string, loaded bool, seconds uint16) {
		facts, err := new(command.Keys).ParseInfo(text)
		says := map[string]string{}
		for _, line := range strings.Split(text, "\n") {
			if i := strings.IndexByte(line, ':'); i >= 0 {
				says[line[:i]] = strings.TrimRight(line[i+1:], "\r")
			}
		}
		if err != nil {
			if !errors.Is(err, fenlock.ErrMisconfigured) {
				t.Errorf("%q: %v", text, err)
			}
			if says["role"] == "master" && says["run_id"] == "r" && says["master_replid"] == "m" &&
				says["redis_version"] == "7.2.4" && says["uptime_in_seconds"] == "1" &&
				says["maxmemory"] == "" && says["redis_mode"] == "" && says["server_mode"] == "" && says["cluster_enabled"] == "" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		major, _ := strconv.Atoi(strings.Split(says["redis_version"], ".")[0])
		memory, _ := strconv.ParseUint(says["maxmemory"], 10, 64)
		switch {
		case says["role"] != "master", says["run_id"] == "" || says["run_id"] != facts.RunID,
			says["master_replid"] == "" || says["master_replid"] != facts.ReplID,
			says["server_mode"] == "cluster", says["server_mode"] == "sentinel",
			says["server_mode"] == "" && (says["redis_mode"] == "cluster" || says["redis_mode"] == "sentinel"),
			says["cluster_enabled"] == "1", major < 7, memory > 0 && says["maxmemory_policy"] != "noeviction":
			t.Errorf("%q was accepted as %+v", text, facts)
		}
		up, err := strconv.ParseInt(says["uptime_in_seconds"], 10, 64)
		const centuries = 9e9 // in seconds; more is more than a Duration
		if err != nil || max(up, -up) < centuries && int64(facts.Uptime/time.Second) != up {
			t.Errorf("%q: an uptime of %v, %v", text, facts.Uptime, err)
		}

		// A server without a mark of what it is now is not admitted as if it had forgotten nothing.
		// A server that may have forgotten leases waits until they are gone.
		facts.Marked, facts.ScriptsLoaded, facts.ScriptsReady = marked, loaded, loaded
		longest := time.Duration(seconds) * time.Second
		v := admit.Decide(FactsOf(facts), admit.Client{Terms: admit.Terms{MaxTTL: longest}, Nodes: 1}, nil, false)
		left := v.Absence.Wait
		switch {
		case v.Do == admit.Refuse, v.Do == admit.Vote && (marked != facts.ReplID || !loaded),
			v.Do == admit.Admit && marked != facts.ReplID,
			v.Do != admit.Vote && v.Do != admit.Admit && marked == facts.ReplID,
			marked != "" && marked != facts.ReplID && v.Do != admit.Note,
			v.Do == admit.Ask && (facts.Uptime < longest || loaded || facts.Promoted || facts.ScriptsFlushed),
			v.Do == admit.Wait && (left <= 0 || left+facts.Uptime < longest):
			t.Errorf("%q, marked %q, loaded %v, longest lease %v: verdict %d, %v left", text, marked, loaded, longest, v.Do,
				left)
		}
	})
}
