package command

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Facts are what a server says of itself, and what its registers say of it.
type Facts struct {
	RunID     string // changes with every start
	ReplID    string // changes with every start, and when the server has followed another
	Uptime    time.Duration
	mode      string // "standalone", "cluster" or "sentinel"
	role      string // "master" or "slave"
	Promoted  bool   // was a replica, has one, or knows of a replication history
	Replicas  Replicas
	version   string // Redis's, or the one that Valkey is compatible with
	policy    string // maxmemory-policy
	maxMemory int64
	AOF       bool // append-only file on

	// ScriptsFlushed: since the start a client flushed the script cache, or reset the statistics
	// that would tell.
	ScriptsFlushed bool
	// ScriptsEverLoaded: since the start a client loaded a script, not necessarily one of this
	// version of fenlock, or of fenlock at all.
	ScriptsEverLoaded bool
	// FsyncAlways: appendfsync is "always", also while the file is rewritten, and
	// aof-load-truncated is "no". A file whose end is torn off would leave a transaction open that
	// swallows what is written later. False if CONFIG is denied.
	FsyncAlways bool
	// Denied: since the start a command was refused for lack of permissions. It may have
	// been read from the append-only file: a default user without permissions has a server
	// leave out transactions there, without another word.
	Denied bool
	// ScriptsLoaded: any of the operations' scripts is in the cache. ScriptsReady: all of them.
	ScriptsLoaded, ScriptsReady bool

	// The registers' own fields.
	Marked    string // replication id with which the server was admitted last
	Recorded  int    // how many replicas the mark says that there are
	mark      string // as it is written
	had       int    // how many replicas an earlier mark said, whose primary this was
	Candidate string // made anew whenever the registers' key was removed
	admit.Terms
	Format     string // of the registers; empty if it is not recorded
	WasDurable bool
	Empty      []string  // as in node.Registers
	noticed    string    // the replication id with which it was noticed that the server is out, and when
	Now        time.Time // on the server's clock
}

// ParseInfo reads the reply of INFO. The error is that of a server that cannot be a
// node. It must be a member of a cluster if these are the keys of one, and else must not.
func (k *Keys) ParseInfo(info string) (Facts, error) {
	fields := fieldsOf(info)
	f := Facts{
		RunID:    fields["run_id"],
		ReplID:   fields["master_replid"],
		mode:     cmp.Or(fields["server_mode"], fields["redis_mode"]), // Valkey's name for it, and Redis's
		role:     fields["role"],
		version:  fields["redis_version"],
		policy:   fields["maxmemory_policy"],
		AOF:      fields["aof_enabled"] == "1",
		Promoted: fields["second_repl_offset"] != "-1",
		Replicas: ReplicasOf(info),
	}
	if fields["cluster_enabled"] == "1" {
		f.mode = "cluster"
	}
	seconds, err := strconv.ParseInt(fields["uptime_in_seconds"], 10, 64)
	// A proxy that answers INFO in its own way is not a server that we know.
	if err != nil || f.RunID == "" || f.version == "" || (f.role == "" || f.ReplID == "") && f.mode != "sentinel" {
		return f, engine.Misconfiguredf("the server's INFO lacks run_id, redis_version, role, master_replid or uptime_in_seconds: a node must be a Valkey or Redis server, reached directly")
	}
	f.Uptime = time.Duration(seconds) * time.Second
	f.maxMemory, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	_, flushed := fields["cmdstat_script|flush"]
	_, reset := fields["cmdstat_config|resetstat"]
	f.ScriptsFlushed = flushed || reset
	// A promoted replica forgets its other history when its backlog goes (repl-backlog-ttl). That
	// it was one is in the statistics: it was told to stop, or took over in a failover.
	for _, command := range []string{"replicaof", "slaveof", "failover", "psync"} {
		if _, called := fields["cmdstat_"+command]; called {
			f.Promoted = true
		}
	}
	_, f.Denied = fields["errorstat_NOPERM"]
	_, f.ScriptsEverLoaded = fields["cmdstat_script|load"]
	return f, f.check(k.clustered)
}

// fieldsOf reads the fields of an INFO.
func fieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}

// Clustered reports whether the server is a member of a cluster. That may have another member take
// its place, or move keys, at any time.
func (f Facts) Clustered() bool { return f.mode == "cluster" }

// check returns why the server cannot be a node, or nil.
func (f Facts) check(clustered bool) error {
	major, _, _ := strings.Cut(f.version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case f.mode == "sentinel":
		return engine.Misconfiguredf("this is a sentinel, which holds no data: its URL is valkey-sentinel://host:port/NAME, with the name that it has for the primary")
	case f.Clustered() && !clustered:
		return engine.Misconfiguredf("this server runs in cluster mode, where locks can be given to a server that does not remember them: the URL of a cluster is valkey-cluster://host:port,host:port/tag, or name an independent primary (cluster-enabled no)")
	case clustered && !f.Clustered():
		return engine.Misconfiguredf("this server does not run in cluster mode: the URL's scheme is valkey:// or redis://, or with TLS valkeys:// or rediss://")
	case err != nil || n < 7:
		return quoteValue(engine.Misconfiguredf("this is Redis: version 7 or later is needed, or any Valkey, since older servers write scripts into the append-only file, so that a restart cannot be told"), f.version)
	case f.role != "master":
		return engine.Misconfiguredf("this is a replica: a node must be an independent primary")
	case f.maxMemory > 0 && f.policy != "noeviction":
		return quoteValue(engine.Misconfiguredf("the server could evict leases: set maxmemory-policy to noeviction"),
			f.policy)
	}
	return nil
}

// Durable reports whether every write is on disk before it is answered. A member of a cluster is
// not believed: while it was down, another one may have had its slot.
func (f Facts) Durable() bool { return f.AOF && f.FsyncAlways && !f.Clustered() }

// Memory names what the server remembers: another name after each start and promotion, by the
// replication id, and after each flush, by the candidate.
func (f *Facts) Memory() string { return f.ReplID + "." + f.Candidate }

// Current reports whether the registers have the format that this program writes.
func (f *Facts) Current() bool { return f.Format == strconv.Itoa(format) }

// Noticed returns for how long at least it has been known that the server is out, as notice.lua
// counts it. It is 0 if no client has noticed.
func (f *Facts) Noticed() (since time.Duration, counting bool) {
	id, at, _ := strings.Cut(f.noticed, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id != f.ReplID || f.Now.UnixMilli() < ms {
		return 0, false
	}
	return max(f.Now.Sub(time.UnixMilli(ms))-time.Millisecond, 0), true // what is recorded was rounded down
}

// Kept reports whether the server, which was restarted, has read all that it had before. It was
// durable then, and is, and nothing tells that it has left something out.
func (f Facts) Kept() bool { return f.Marked != "" && f.WasDurable && f.Durable() && !f.Denied }

// recorded are the registers' own fields.
var recorded = []string{"candidate", "admitted", "maxttl", "durable", "empty", formatField, "members", "noticed",
	"replicas"}

// recorded asks for the registers' own fields.
func (k *Keys) recorded() resp.Command {
	return append(resp.Command{"HMGET", k.registers}, recorded...)
}

// record takes the values of the registers' own fields. The error is that they cannot be used.
func (f *Facts) record(values []string) (err error) {
	f.Candidate, f.mark, f.WasDurable, f.Empty = values[0], values[1], values[3] == "1", admit.MemoriesOf(values[4])
	f.Format, f.noticed = values[5], values[7]
	f.Marked, f.Recorded = SplitMark(f.mark)
	if had, err := strconv.Atoi(values[8]); err == nil {
		f.had = min(max(had, 0), mostReplicas)
	}
	f.Terms, err = termsOf(values[2], values[6])
	return cmp.Or(checkFormat(f.Format), err)
}

// fsyncAlways reports what Facts.FsyncAlways has, by the server's settings.
func fsyncAlways(settings map[string]string) bool {
	return settings["appendfsync"] == "always" && settings["no-appendfsync-on-rewrite"] == "no" &&
		settings["aof-load-truncated"] == "no"
}

// witnesses returns how many replicas the next mark says that there are: those in step, and those
// that it had. It may be the old primary beside its promoted replica, which notice.lua tells from
// the promoted replica.
func (f *Facts) witnesses() int {
	had := f.had
	if f.Marked == f.ReplID || f.Kept() {
		had = max(had, f.Recorded)
	}
	return max(had, f.Replicas.InStep)
}
