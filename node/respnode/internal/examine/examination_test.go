package examine

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// Each finding has a server that has it, and one that is next to it and has not.
func TestFindings(t *testing.T) {
	info := func(fields ...string) func(*made) {
		return func(m *made) { m.info = append(m.info, fields...) }
	}
	set := func(name, value string) func(*made) {
		return func(m *made) { m.settings[name] = value }
	}
	both := func(all ...func(*made)) func(*made) {
		return func(m *made) {
			for _, f := range all {
				f(m)
			}
		}
	}
	closely := func(c Close) func(*made) { return func(m *made) { m.close = &c } }
	reach := func(r Reached) func(*made) { return func(m *made) { m.reached = r } }
	one := info("connected_slaves", "1", "slave0", "ip=10.0.0.8,port=6379,state=online,offset=98,lag=0")
	const gib = "1073741824"
	for _, c := range []struct {
		check    string
		severity node.Severity
		with     func(*made)
		without  func(*made)
		says     string // in reason or advice
	}{
		{"replica", node.Error, info("role", "slave", "master_host", "10.0.0.9", "master_port", "6379"), info(),
			"10.0.0.9:6379"},
		{"cluster", node.Error, info("server_mode", "cluster"), info("server_mode", "standalone"), "cluster-enabled no"},
		{"sentinel", node.Error, info("server_mode", "sentinel"), info(), "valkey-sentinel://"},
		{"version", node.Error, info("redis_version", "6.2.14"), info("redis_version", "7.0.0"), "Redis 6.2.14"},
		{"eviction", node.Error, both(info("maxmemory", gib, "maxmemory_policy", "allkeys-lru"), set("maxmemory", gib),
			set("maxmemory-policy", "allkeys-lru")),
			both(set("maxmemory-policy", "allkeys-lru")), "CONFIG SET maxmemory-policy noeviction"},
		{"eviction", node.Error, both(func(m *made) { m.noConfig = true },
			info("maxmemory", gib, "maxmemory_policy", "volatile-ttl")),
			both(func(m *made) { m.noConfig = true }, info("maxmemory", gib)), "volatile-ttl"},
		{"loading", node.Warning, info("loading", "1"), info("loading", "0"), "loading"},
		{"memory", node.Error, both(info("maxmemory", gib, "used_memory", gib), set("maxmemory", gib)),
			info("used_memory", gib), "no memory left"},
		{"memory", node.Warning, info("maxmemory", gib, "used_memory", "1000000000"),
			info("maxmemory", gib, "used_memory", "900000000"), "953.7 MiB"},
		{"memory", node.Warning, info("total_system_memory", gib, "used_memory_rss", "1000000000"),
			info("total_system_memory", gib, "used_memory_rss", "900000000"), "the machine's memory"},
		{"disk", node.Error, info("rdb_last_bgsave_status", "err"), info("rdb_last_bgsave_status", "ok"), "to save its data"},
		{"disk", node.Error, info("aof_enabled", "1", "aof_last_write_status", "err"),
			info("aof_enabled", "0", "aof_last_write_status", "err"), "append-only"},
		{"crash", node.Note, info(), both(info("aof_enabled", "1"), set("appendfsync", "always")), "appendonly no"},
		{"crash", node.Note, info("aof_enabled", "1"), both(info("aof_enabled", "1"), set("appendfsync", "always")),
			"appendfsync everysec"},
		{"crash", node.Note, both(info("aof_enabled", "1"), set("appendfsync", "always"),
			set("no-appendfsync-on-rewrite", "yes")),
			both(info("aof_enabled", "1"), set("appendfsync", "always")), "no-appendfsync-on-rewrite no"},
		{"crash", node.Note, both(info("aof_enabled", "1"), func(m *made) { m.noConfig = true }),
			both(info("aof_enabled", "1"), set("appendfsync", "always")), "+config|get"},
		{"crash", node.Note, both(info("aof_enabled", "1"), set("appendfsync", "always"), set("aof-load-truncated", "yes")),
			both(info("aof_enabled", "1"), set("appendfsync", "always")), "CONFIG SET aof-load-truncated no"},
		{"durable-once", node.Warning, func(m *made) { m.registers[2] = "1" },
			both(func(m *made) { m.registers[2] = "1" }, info("aof_enabled", "1"), set("appendfsync", "always")),
			"HSET fenlock-registers:fenlock: durable 0"},
		{"durable-once", node.Warning, both(func(m *made) { m.registers[2], m.noConfig = "1", true }),
			// what cannot be known is not accused
			both(func(m *made) { m.registers[2], m.noConfig = "1", true }, info("aof_enabled", "1")), "restarted"},
		{"replicas", node.Warning, info("connected_slaves", "2"), info("connected_slaves", "0"),
			"CONFIG SET repl-backlog-ttl 0"},
		{"replicas", node.Note, both(info("connected_slaves", "2"), set("repl-backlog-ttl", "0")), info(), "promoted"},
		{"witness", node.Error, func(m *made) { m.registers[0] = "4567def/2" }, info(),
			"HSET fenlock-registers:fenlock: admitted 4567def on"},
		{"witness", node.Error, both(one, func(m *made) { m.registers[0] = "4567def/2" }),
			both(one, func(m *made) { m.registers[0] = "4567def/1" }), "admitted 4567def/1 on"},
		{"witness", node.Warning, both(one, reach(Reached{Witness: admission.NoReplica})),
			reach(Reached{Witness: admission.NoReplica}), "witness=off"},
		{"witness", node.Warning, both(one, func(m *made) { m.registers[0] = "4567def/2" },
			reach(Reached{Witness: 1})), both(one, reach(Reached{Witness: 1})), "Any 1 of 2 replicas"},
		{"witness", node.Warning, both(one, func(m *made) { m.registers[0] = "4567def" }),
			both(one, func(m *made) { m.registers[0] = "4567def/1" }), "Take any lock there"},
		{"min-replicas", node.Warning, set("min-replicas-to-write", "1"), info(), "min-replicas-to-write 0"},
		{"idle-timeout", node.Warning, set("timeout", "2"), set("timeout", "60"), "CONFIG SET timeout"},
		{"buffer-limit", node.Warning, set("client-output-buffer-limit", "normal 0 0 0 slave 0 0 0 pubsub 0 65536 60"),
			set("client-output-buffer-limit", "normal 1 1 1 slave 0 0 0 pubsub 0 0 0"), "64.0 KiB"},
		{"clients", node.Warning, info("maxclients", "100", "connected_clients", "90"),
			info("maxclients", "100", "connected_clients", "89"), "90 clients"},
		{"plain-text", node.Note, reach(Reached{Address: "10.0.0.1", Password: true}),
			reach(Reached{Address: "10.0.0.1", Password: true, TLS: true}), "the password can be read"},
		{"plain-text", node.Warning, reach(Reached{Address: "203.0.113.7", Password: true}), reach(Reached{Address: "::1"}),
			"networks of others"},
		// no address: a unix socket
		{"plain-text", node.Note, reach(Reached{Address: "fd00::1"}), reach(Reached{}), "locks can be read"},
		{"no-password", node.Warning, reach(Reached{Address: "10.0.0.1", TLS: true}),
			reach(Reached{Address: "10.0.0.1", Password: true}), "turn off the default user"},
		{"no-password", node.Warning, both(reach(Reached{Address: "10.0.0.1", Password: true}),
			closely(Close{Account: &command.Account{NoPassword: true}})),
			both(reach(Reached{Address: "10.0.0.1", Password: true}), closely(Close{Account: &command.Account{}})),
			"FENLOCK_NODES"},
		{"permissions", node.Error, func(m *made) { m.permit.Missing = []string{"+hset", "~fenlock:*"} }, info(),
			"ACL SETUSER default +hset ~fenlock:*, and save it"},
		{"permissions", node.Warning, closely(Close{Notify: errors.New("NOPERM")}), closely(Close{}), "may not subscribe"},
		{"permissions-unknown", node.Note, func(m *made) { m.unknown = errors.New("no MULTI") }, info(), "no MULTI"},
		{"permissions-unknown", node.Note, func(m *made) { m.permit.OnlyLooks = true }, info(), "may look and take no lock"},
		{"replay", node.Warning, both(info("aof_enabled", "1"),
			closely(Close{Default: &command.Account{Commands: "-@all", Keys: ""}})),
			both(info("aof_enabled", "1"), closely(Close{Default: &command.Account{Commands: "+@all", Keys: "~*"}})),
			"ACL SETUSER default off ~* &* +@all"},
		{"replay", node.Warning, both(info("aof_enabled", "1"),
			closely(Close{Default: &command.Account{Commands: "+@all -flushall", Keys: "~*"}})),
			closely(Close{Default: &command.Account{Commands: "-@all"}}), "without a word"},
		{"permissions-more", node.Note, closely(Close{Account: &command.Account{Commands: "+@all", Keys: "~*"}}),
			closely(Close{}), `"+@all"`},
		{"disabled-command", node.Error, func(m *made) { m.permit.Disabled = []string{"EVAL", "SCRIPT"} }, info(),
			"EVAL, SCRIPT"},
		{"writes", node.Error, func(m *made) { m.permit.Refuses = errors.New("it cannot save") }, info(), "it cannot save"},
		{"endless-key", node.Error, closely(Close{Entries: []command.Entry{{Key: "fenlock:a\x1b[2J", Endless: true}}}),
			closely(Close{Entries: []command.Entry{{Key: "fenlock:a"}}}), `"fenlock:a\x1b[2J"`},
		{"stray-key", node.Warning, closely(Close{Entries: []command.Entry{{Key: "fenlock:a", Other: true}}}),
			closely(Close{Entries: []command.Entry{{Key: "fenlock:a"}}}), "not fenlock's"},
		{"registers", node.Error, closely(Close{Damage: command.Damage{Bad: []int{1, 2, 3, 4, 5}}}), closely(Close{}),
			"(1, 2, 3 and 2 more)"},
		{"registers-large", node.Error, closely(Close{Damage: command.Damage{Large: []int{7}}}), closely(Close{}), "(7)"},
		{"known-holes", node.Note, info("valkey_version", "8.0.9"), info("valkey_version", "8.0.10"), "8.0.10 or later"},
	} {
		found := change(c.with).server(t).Examination().Findings
		f := find(t, found, c.check)
		if f.Severity != c.severity || !strings.Contains(f.Reason+" "+f.Advice, c.says) {
			t.Errorf("%s: %+v; want a %v with %q", c.check, f, c.severity, c.says)
		}
		for _, f := range found {
			sentence(t, f)
		}
		other := change(c.without).server(t).Examination().Findings
		if slices.Contains(checks(other), c.check) {
			t.Errorf("%s is also where it should not be: %+v", c.check, find(t, other, c.check))
		}
	}
}

// A server as it is installed, on this machine, has nothing that has to be mended.
func TestHealthy(t *testing.T) {
	m := healthy()
	m.close = &Close{}
	s := m.server(t)
	e := s.Examination()
	if !e.Admitted || e.Why != "" || e.Wait != 0 || s.Unusable() != nil {
		t.Errorf("%+v, %v", e, s.Unusable())
	}
	if got := strings.Join(checks(e.Findings), " "); got != "crash" {
		t.Errorf("found %s", got)
	}
	if e.Product != "Valkey" || e.Version != "8.0.10" || e.Role != "primary" || e.Server != "0123abc" ||
		e.Memory != "4567def.c" ||
		e.MaxTTL != 30*time.Second || strings.Join(e.Members, " ") != "a:1 b:1 c:1" || e.Uptime != 90*time.Second ||
		e.Address != "127.0.0.1" {
		t.Errorf("%+v", e)
	}
}

// What does not compare its members has none.
func TestAnyMembers(t *testing.T) {
	e := change(func(m *made) { m.registers[5] = "*" }).server(t).Examination()
	if e.Members != nil {
		t.Errorf("%q", e.Members)
	}
}

// Of a server that can hold no locks, how it keeps its memory does not matter.
func TestReplicaHasNothingElse(t *testing.T) {
	e := change(func(m *made) {
		m.info = append(m.info, "role", "slave", "connected_slaves",
			"3")
	}).server(t).Examination()
	if got := strings.Join(checks(e.Findings), " "); got != "replica" || e.Admitted || e.Role != "replica" ||
		e.MaxTTL != 0 || e.Members != nil {
		t.Errorf("found %s, %+v", got, e)
	}
}

// Which server votes when, and what for: as the next client would find it.
func TestOutlook(t *testing.T) {
	noticed := func(ago time.Duration) string {
		return "4567def " + strconv.FormatInt(now.Add(-ago).UnixMilli(), 10)
	}
	for what, c := range map[string]struct {
		change  func(*made)
		why     string // "" if it votes
		wait    time.Duration
		rebuild bool
	}{
		"admitted":             {func(*made) {}, "", 0, false},
		"admitted, not loaded": {func(m *made) { m.loaded = false }, "", 0, false},
		"restarted now": {func(m *made) {
			m.registers[0], m.loaded = "before", false
			m.info = append(m.info, "uptime_in_seconds", "5")
		}, "a short time ago", 26*time.Second + 302*time.Millisecond, true},
		"restarted long ago": {func(m *made) { m.registers[0], m.loaded = "before", false }, "it has waited", 0, true},
		"restarted, longer TTL": {func(m *made) { m.registers[0], m.registers[1], m.loaded = "before", "120000", false },
			"a short time ago", 32*time.Second + 202*time.Millisecond, true},
		// Further questions may be denied, which would count.
		"restarted, durable": {func(m *made) {
			m.registers[0], m.registers[2], m.loaded = "before", "1", false
			m.info, m.settings["appendfsync"] = append(m.info, "aof_enabled", "1"), "always"
		}, "the next client that asks it for a lock finds out", 0, false},
		"restarted, durable, denied": {func(m *made) {
			m.registers[0], m.registers[2], m.loaded = "before", "1", false
			m.info, m.settings["appendfsync"] = append(m.info, "aof_enabled", "1", "errorstat_NOPERM", "count=1"), "always"
		}, "it has waited", 0, true},
		"new": {func(m *made) {
			m.registers, m.loaded = [8]string{}, false
			m.info = append(m.info, "uptime_in_seconds", "1")
		}, "a short time ago", 30*time.Second + 302*time.Millisecond, true},
		"new, up for long": {func(m *made) { m.registers, m.loaded = [8]string{}, false }, "it has waited", 0, true},
		"flushed, nobody has noticed": {func(m *made) {
			m.registers, m.stats = [8]string{},
				"cmdstat_script|load:calls=5\r\n"
		},
			"begins when a client asks", 30*time.Second + 302*time.Millisecond, true},
		"flushed, noticed": {func(m *made) { m.registers = [8]string{6: noticed(10 * time.Second)} },
			"its data was deleted", 20*time.Second + 303*time.Millisecond, true},
		"flushed, has waited": {func(m *made) { m.registers = [8]string{6: noticed(time.Minute)} }, "it has waited", 0,
			true},
		"noticed by another": {func(m *made) { m.registers = [8]string{6: "other 1"} }, "begins when a client asks",
			30*time.Second + 302*time.Millisecond, true},
		"noticed, from ahead": {func(m *made) { m.registers = [8]string{6: noticed(-time.Minute)} },
			"begins when a client asks", 30*time.Second + 302*time.Millisecond, true},
		"promoted": {func(m *made) {
			m.registers[0] = "before"
			m.info = append(m.info, "second_repl_offset",
				"17")
		}, "a promoted replica", 30*time.Second + 302*time.Millisecond, true},
		"an older format": {func(m *made) { m.registers[4] = "1" }, "it has lost nothing", 0, false},
		"no format":       {func(m *made) { m.registers[4] = "" }, "it has lost nothing", 0, false},
		"first replica gained": {func(m *made) { m.registers[0] = "before" }, "another store",
			30*time.Second + 302*time.Millisecond, true},
	} {
		e := change(c.change).server(t).Examination()
		if e.Admitted != (c.why == "") || !strings.Contains(e.Why, c.why) || e.Wait != c.wait || e.Rebuild != c.rebuild {
			t.Errorf("%s: admitted %v, %q, wait %v, rebuild %v; want %q, %v, %v", what, e.Admitted, e.Why, e.Wait, e.Rebuild,
				c.why, c.wait, c.rebuild)
		}
	}
}

// What cannot be used says so as an operation would.
func TestUnusable(t *testing.T) {
	for what, c := range map[string]struct {
		change    func(*made)
		says      string
		permanent bool
	}{
		"newer format": {func(m *made) { m.registers[4] = "9" }, "format 9", true},
		"strange":      {func(m *made) { m.registers[4] = "nine" }, "no fenlock wrote", true},
		"replica":      {func(m *made) { m.info = append(m.info, "role", "slave") }, "replica", true},
		"permissions":  {func(m *made) { m.permit.Missing = []string{"+set"} }, "+set", true},
		"disabled":     {func(m *made) { m.permit.Disabled = []string{"EVAL"} }, "EVAL", true},
		"cannot save":  {func(m *made) { m.permit.Refuses = errors.New("cannot save") }, "cannot save", false},
		"no disk, and worse": {func(m *made) {
			m.permit.Refuses, m.permit.Missing = errors.New("cannot save"), []string{"+set"}
		}, "+set", true},
	} {
		err := change(c.change).server(t).Unusable()
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, node.ErrMisconfigured) != c.permanent {
			t.Errorf("%s: %v", what, err)
		}
	}
}
