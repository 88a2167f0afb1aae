package examine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
)

// number reads one that a server sent, 0 if it is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return max(n, 0)
}

// bytes writes a size for people.
func bytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// unfit finds what a client refuses the server for. It looks at all of it, where the
// client stops at the first.
func (s Server) unfit() (found []node.Finding) {
	switch s.Role() {
	case "sentinel":
		return append(found, node.Found("sentinel", node.Error, "This is a sentinel, which holds no data.").
			Do("The URL of a server that sentinels watch is valkey-sentinel://HOST:PORT/NAME, with the name that they have for it."))
	case "cluster":
		found = append(found, node.Found("cluster", node.Error,
			"The server runs in cluster mode, where another server takes over without the newest locks.").
			Do("Name the cluster as one node, by valkey-cluster://HOST,HOST/TAG, or use a server with cluster-enabled no."))
	case "replica":
		found = append(found, node.Found("replica", node.Error,
			"The server is a replica of %.80q: what is locked there may be unknown here.",
			s.Info["master_host"]+":"+s.Info["master_port"]).
			Do("Name the primary instead. If this is to be a server of its own: REPLICAOF NO ONE, after which it is out for MaxTTL."))
	}
	if v, ok := parseVersion(s.Info["redis_version"]); ok && v[0] < 7 {
		found = append(found, node.Found("version", node.Error,
			"This is Redis %.40s: before version 7 a restart cannot be told.", s.Info["redis_version"]).
			Do("Upgrade it to Redis 7.2 or later, or to Valkey."))
	}
	policy, _ := s.setting("maxmemory-policy")
	limit, _ := s.setting("maxmemory")
	if most := number(limit); most > 0 && policy != "noeviction" {
		found = append(found, node.Found("eviction", node.Error,
			"With maxmemory %s and the policy %.40s the server may evict leases that are held: clients refuse it.", bytes(most),
			policy).
			Do("CONFIG SET maxmemory-policy noeviction, and write it into the server's configuration too."))
	}
	if s.Info["loading"] == "1" {
		found = append(found, node.Found("loading", node.Warning,
			"The server is loading its data, and answers nothing else before it is done.").
			Do("Wait. With a large file that belongs to something else, give the locks a server of their own."))
	}
	return found
}

// memory finds a server that is about to have none left.
func (s Server) memory() []node.Finding {
	used, limit := number(s.Info["used_memory"]), number(s.Info["maxmemory"])
	of := "maxmemory"
	if limit == 0 {
		used, limit, of = number(s.Info["used_memory_rss"]), number(s.Info["total_system_memory"]), "the machine's memory"
	}
	switch {
	case limit == 0 || used < limit/10*9:
		return nil
	case used >= limit && of == "maxmemory":
		return []node.Finding{node.Found("memory", node.Error,
			"The server has no memory left: it uses %s, and maxmemory is %s. It refuses to lease anything.", bytes(used),
			bytes(limit)).
			Do("Remove what does not belong there, or raise it: CONFIG SET maxmemory.")}
	}
	return []node.Finding{node.Found("memory", node.Warning,
		"The server uses %s, and %s is %s. When it is used up, no lock can be taken there.", bytes(used), of, bytes(limit)).
		Do("Remove what does not belong there, or give it more memory.")}
}

// disk finds a server that refuses writes because it cannot save.
func (s Server) disk() (found []node.Finding) {
	failed := ""
	switch {
	case s.Info["aof_enabled"] == "1" && s.Info["aof_last_write_status"] == "err":
		failed = "to write its append-only file"
	case s.Info["rdb_last_bgsave_status"] == "err":
		failed = "to save its data"
	}
	if failed != "" {
		found = append(found, node.Found("disk", node.Error,
			"The server has failed %s, and refuses all writes until it can (unless it is told not to).", failed).
			Do("Look at its log, at the room on its disk, and at who may write in its folder."))
	}
	return found
}

// crash says what is lost when the server ends.
func (s Server) crash() (found []node.Finding) {
	if s.InCluster {
		if s.Info["cluster_enabled"] != "1" {
			return nil // it is refused
		}
		return append(found, node.Found("slot", node.Note,
			"The node is a slot of a cluster. When another member gets it, or the member that has it is restarted, the node stays out for MaxTTL; that is safe, and the locks that are held are lost."))
	}
	if s.Fragile() {
		return nil // its settings were not asked
	}
	aof := s.Info["aof_enabled"] == "1"
	if s.WasDurable && !s.Durable() && (s.Settings != nil || !aof) {
		found = append(found, node.Found("durable-once", node.Warning,
			"The server was admitted as one that has each write on disk before it answers, and that has been changed since. If it is changed back and restarted, clients believe what it has lost.").
			Do("HSET %s durable 0 on this server; the next admission sets it right.", s.Key))
	}
	switch {
	case s.Durable():
	case aof && s.Settings == nil:
		found = append(found, node.Found("crash", node.Note,
			"The server has an append-only file, and this user may not ask whether it is written before each answer. So that is not believed: after a restart it stays out for MaxTTL.").
			Do("Allow the user +config|get if appendfsync is always."))
	case aof && s.Settings["appendfsync"] == "always" && s.Settings["no-appendfsync-on-rewrite"] != "no":
		found = append(found, node.Found("crash", node.Note,
			"appendfsync is always, but no-appendfsync-on-rewrite is yes, so that the newest writes may be lost all the same. After a restart the server stays out for MaxTTL.").
			Do("CONFIG SET no-appendfsync-on-rewrite no, if it shall vote at once."))
	case aof && s.Settings["appendfsync"] == "always":
		found = append(found, node.Found("crash", node.Note,
			"appendfsync is always, but aof-load-truncated is yes: after a loss of power the server may leave out a part of its file without a word. So it is not believed, and after a restart it stays out for MaxTTL.").
			Do("CONFIG SET aof-load-truncated no, and write it into the server's configuration too (docs/valkey.md, “Files that are read in part”)."))
	case aof:
		found = append(found, node.Found("crash", node.Note,
			"The server would lose the newest writes in a crash (appendfsync %.20s). After a restart it stays out for MaxTTL; that is safe.", s.Settings["appendfsync"]).
			Do("If it shall vote at once instead: CONFIG SET appendfsync always, and aof-load-truncated no. That costs a disk write for each acquisition."))
	default:
		found = append(found, node.Found("crash", node.Note,
			"The server would forget its locks in a restart (appendonly no), and stay out for MaxTTL after it; that is safe.").
			Do("If it shall vote at once instead: appendonly yes, appendfsync always and aof-load-truncated no. That costs a disk write for each acquisition."))
	}
	return found
}

// seen is what is known of the server's replicas.
func (s Server) seen() admission.Seen {
	return admission.Seen{Replicas: s.Replicas, Recorded: s.Recorded, Marked: s.Marked == s.ReplID}
}

// NeedsWait reports whether the client has to wait for the server's replicas.
func (s Server) NeedsWait() bool {
	return s.Reached.Witness.Needs(s.seen()) > 0 || s.Reached.Witness == admission.AllReplicas && s.Replicas.InStep > 0
}

// witness finds replicas that have not seen what the server promises.
func (s Server) witness() (found []node.Finding) {
	seen, w := s.seen(), s.Reached.Witness
	mark := s.ReplID
	if seen.InStep > 0 {
		mark += "/" + strconv.Itoa(seen.InStep)
	}
	most := max(seen.InStep, seen.Recorded)
	switch need := w.Needs(seen); {
	case w.Judge(seen) == admission.Missing:
		found = append(found, node.Found("witness", node.Error,
			"The server has %d of the %d replicas that must have what it promises, so that no lock can be taken there: one that is missing may have been promoted%s.", seen.InStep, need, s.migrated()).
			Do("Bring the replica back. If it is gone for good, and no client uses it as a primary: HSET %s admitted %s on this server.", s.Key, mark))
	case w.Judge(seen) == admission.Unrecorded:
		found = append(found, node.Found("witness", node.Warning,
			"The server has %d replicas, of which %d are recorded. If another one is promoted now, an old primary that goes on grants what the new primary grants.", seen.InStep, seen.Recorded).
			Do("Take any lock there, which records the number: fenlock run some-name -- true."))
	case w == admission.NoReplica && most > 0:
		found = append(found, node.Found("witness", node.Warning,
			"The server has replicas (%d), and this client does not wait for them (witness=off): after a failover, an old primary that goes on grants what the new primary grants.", most).
			Do("Leave the URL's parameter witness out, unless locks shall go on without a replica."))
	case need > 0 && need < most:
		found = append(found, node.Found("witness", node.Warning,
			"Any %d of %d replicas must have what the server promises (witness): after a failover to another one, an old primary that goes on with the rest grants what the new primary grants.", need, most).
			Do("Leave the URL's parameter witness out, unless locks shall go on without a replica."))
	}
	return found
}

// migrated says where the replica of a member of a cluster may be.
func (s Server) migrated() string {
	if value, _ := s.setting(migration); s.InCluster && value != "no" {
		return ", or the cluster has given it to another primary (" + migration + ")"
	}
	return ""
}

const migration = "cluster-allow-replica-migration"

// migration finds a cluster that may take a replica away.
func (s Server) migration() (found []node.Finding) {
	value, known := s.setting(migration)
	switch {
	case !s.InCluster || !s.NeedsWait() || value == "no":
	case known:
		found = append(found, node.Found("replica-migration", node.Warning,
			"The cluster may give a replica of this server to another primary (%s %.20s). Then no lock can be taken here, as after the loss of a replica.", migration, value).
			Do("CONFIG SET %s no on each member, and write it into their configurations too.", migration))
	case !s.Fragile():
		found = append(found, node.Found("replica-migration", node.Note,
			"The cluster may give a replica of this server to another primary, unless %s is no. This user may not ask (CONFIG).", migration).
			Do("Allow the user +config|get, or look at the setting on each member."))
	}
	return found
}

// replicas finds what becomes of a server that others follow.
func (s Server) replicas() (found []node.Finding) {
	if n := number(s.Info["connected_slaves"]); n > 0 && s.Role() == "primary" {
		ttl, known := s.setting("repl-backlog-ttl")
		switch {
		case known && number(ttl) > 0:
			found = append(found, node.Found("replicas", node.Warning,
				"The server has replicas (%d). When the last replica has been gone for %s s, the server changes its replication id and is out for MaxTTL; if the replicas of all nodes are on one machine, all nodes at once.", n, ttl).
				Do("CONFIG SET repl-backlog-ttl 0, and write it into the server's configuration too."))
		default:
			found = append(found, node.Found("replicas", node.Note,
				"The server has replicas (%d). They have no vote; one that is promoted in its place is out for MaxTTL, since it may lack the newest locks.", n))
		}
	}
	if ask, known := s.setting("min-replicas-to-write"); known && number(ask) > 0 {
		found = append(found, node.Found("min-replicas", node.Warning,
			"The server refuses writes while it has fewer than %d replicas (min-replicas-to-write), so that a lock needs them too.", number(ask)).
			Do("CONFIG SET min-replicas-to-write 0: the locks' majority is over nodes, not over replicas."))
	}
	return found
}

// The client asks an idle connection once a second whether it lives (transport), and the
// longest reply that it reads is 1 MiB.
const (
	leastTimeout = 3 // seconds
	leastBuffer  = 1 << 20
)

// connections finds what would cut clients off.
func (s Server) connections() (found []node.Finding) {
	if text, known := s.setting("timeout"); known && number(text) > 0 && number(text) < leastTimeout {
		found = append(found, node.Found("idle-timeout", node.Warning,
			"The server closes connections that are idle for %d s (timeout), about as often as clients say that they live.",
			number(text)).
			Do("CONFIG SET timeout 0, or 60."))
	}
	if limit, hard := pubsubLimit(s.Settings["client-output-buffer-limit"]); hard > 0 && hard < leastBuffer {
		found = append(found, node.Found("buffer-limit", node.Warning, "The server cuts a client off that has more than %s to read (client-output-buffer-limit %.60s). Clients that wait for locks are of that class, and their requests too.", bytes(hard), limit).
			Do("Leave it at its default: CONFIG SET client-output-buffer-limit \"pubsub 32mb 8mb 60\"."))
	}
	if most, now := number(s.Info["maxclients"]), number(s.Info["connected_clients"]); most > 0 && now >= most/10*9 {
		found = append(found, node.Found("clients", node.Warning,
			"The server has %d clients and takes %d at most. More clients are refused.", now, most).
			Do("Look for programs that do not close their connections (CLIENT LIST), or raise maxclients."))
	}
	return found
}

// pubsubLimit returns the limit of the class of clients that subscribe, as it is set, and its
// smaller size that is not 0.
func pubsubLimit(setting string) (text string, least int64) {
	words := strings.Fields(setting)
	for i := 0; i+3 < len(words); i += 4 {
		if words[i] != "pubsub" {
			continue
		}
		for _, size := range words[i+1 : i+3] {
			if n := number(size); n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
		return strings.Join(words[i:i+4], " "), least
	}
	return "", 0
}
