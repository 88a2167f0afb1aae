package valkeynode

import (
	"strconv"
	"strings"
	"time"
)

// facts are what a server says of itself, and what its registers say of it.
type facts struct {
	runID    string // changes with every start
	replID   string // changes with every start, and when the server has followed another
	uptime   time.Duration
	mode     string // "standalone", "cluster" or "sentinel"
	role     string // "master" or "slave"
	promoted bool   // was a replica, or knows of a replication history
	version  string // Redis's, or the one that Valkey is compatible with
	policy   string // maxmemory-policy
	maxmem   int64
	aof      bool // append-only file on

	// scriptsFlushed: since the start somebody flushed the script cache, or reset
	// the statistics that would tell.
	scriptsFlushed bool

	// scriptsEverLoaded: since the start somebody loaded a script, not
	// necessarily one of this version of fenlock, or of fenlock at all.
	scriptsEverLoaded bool

	// fsyncAlways: appendfsync is "always", also while the file is rewritten.
	// False if CONFIG is denied.
	fsyncAlways bool
	// scriptsLoaded: the operations' scripts are in the cache.
	scriptsLoaded bool

	// The registers' own fields.
	marked     string        // replication id with which the server was admitted last
	candidate  string        // made anew whenever the registers' key was removed
	maxTTL     time.Duration // 0 if not recorded
	wasDurable bool
	empty      []string // as in node.Registers
}

// parseInfo reads the reply of INFO.
func parseInfo(info string) (facts, error) {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok {
			fields[key] = value
		}
	}
	f := facts{
		runID:    fields["run_id"],
		replID:   fields["master_replid"],
		mode:     fields["redis_mode"],
		role:     fields["role"],
		version:  fields["redis_version"],
		policy:   fields["maxmemory_policy"],
		aof:      fields["aof_enabled"] == "1",
		promoted: fields["second_repl_offset"] != "-1",
	}
	if mode := fields["server_mode"]; mode != "" { // Valkey's new name for it
		f.mode = mode
	}
	if fields["cluster_enabled"] == "1" {
		f.mode = "cluster"
	}
	seconds, err := strconv.ParseInt(fields["uptime_in_seconds"], 10, 64)
	// A proxy that answers INFO in its own way is not a server that we know.
	if err != nil || f.runID == "" || f.version == "" || (f.role == "" || f.replID == "") && f.mode != "sentinel" {
		return f, misconfigured("the server's INFO lacks run_id, redis_version, role, master_replid or uptime_in_seconds: a node must be a Valkey or Redis server, reached directly")
	}
	f.uptime = time.Duration(seconds) * time.Second
	f.maxmem, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	_, flushed := fields["cmdstat_script|flush"]
	_, reset := fields["cmdstat_config|resetstat"]
	f.scriptsFlushed = flushed || reset
	_, f.scriptsEverLoaded = fields["cmdstat_script|load"]
	return f, nil
}

// check returns why the server cannot be a node, or nil.
func (f facts) check() error {
	major, _, _ := strings.Cut(f.version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case f.mode == "sentinel":
		return misconfigured("this is a sentinel, which holds no data: a node must be an independent primary")
	case f.mode == "cluster":
		return misconfigured("this server runs in cluster mode: a node must be an independent primary (cluster-enabled no)")
	case err != nil || n < 7:
		return misconfigured("this is Redis %s: version 7 or later is needed, or any Valkey (older servers write scripts into the append-only file, so that a restart cannot be told)", f.version)
	case f.role != "master":
		return misconfigured("this is a replica: a node must be an independent primary")
	case f.maxmem > 0 && f.policy != "noeviction":
		return misconfigured("maxmemory-policy is %s: the server could evict leases; set it to noeviction", f.policy)
	}
	return nil
}

// durable reports whether every write is on disk before it is answered.
func (f facts) durable() bool { return f.aof && f.fsyncAlways }
