package command

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Looked is what a server says of itself to a client that changes nothing on it.
type Looked struct {
	Facts
	Info     map[string]string // all fields of INFO
	Settings map[string]string // as CONFIG GET has them; nil if it was not asked, or is denied
	Key      string            // of the hash of registers
	// InCluster: the node is a cluster, so that the server must be a member of one.
	InCluster bool

	// Refused is why the server cannot be a node, nil if it can.
	Refused error
	// Unreadable is why its registers could not be read, nil if they could.
	Unreadable error
}

// settings are those that matter for locks.
var settings = []string{
	"appendonly", "appendfsync", "no-appendfsync-on-rewrite", "aof-load-truncated", "save", "maxmemory",
	"maxmemory-policy", "maxclients",
	"timeout", "client-output-buffer-limit", "repl-backlog-ttl", "min-replicas-to-write",
	"cluster-allow-replica-migration",
}

// Look asks for what a client that only looks may ask, and writes nothing. The rest is
// what LookCloser asks.
func (k *Keys) Look() []resp.Command {
	return []resp.Command{
		resp.Command{"INFO"},
		resp.Command{"INFO", "commandstats"},
		k.recorded(),
	}
}

// ParseLooked reads the replies to Look. The error is that nothing is known.
func (k *Keys) ParseLooked(replies []resp.Reply, err error) (l Looked, _ error) {
	l.InCluster = k.clustered
	if l.Key = k.registers; err != nil {
		return l, err
	}
	info, err := replies[0].ToString()
	if err != nil {
		return l, err
	}
	stats, statsErr := replies[1].ToString()
	l.Facts, l.Refused = k.ParseInfo(info + stats)
	l.Info = fieldsOf(info)
	l.Unreadable = cmp.Or(l.parseRegisters(replies[2]), statsErr)
	return l, nil
}

// Fragile reports whether a command that the server denies would change what becomes of it. It was
// restarted with all that it had, as far as can be seen, and admission believes that only where
// nothing was denied since (Facts.Kept). So a client that only looks must not ask what this user
// may not know.
func (l *Looked) Fragile() bool {
	return l.Marked != "" && l.Marked != l.ReplID && l.WasDurable && l.AOF && !l.Denied
}

// LookCloser asks for the rest.
func (k *Keys) LookCloser() []resp.Command {
	return []resp.Command{askScripts(), append(resp.Command{"CONFIG", "GET"}, settings...)}
}

// AddCloser reads the replies to LookCloser. What is denied is not known: the scripts are taken for
// not loaded, as after a start, and nothing for durable. Beside a mark of now they are ready in any
// case. The request that finds them gone has them loaded, and the server has voted all the time.
func (l *Looked) AddCloser(replies []resp.Reply, err error) error {
	if err != nil {
		return err
	}
	l.ScriptsReady = l.Marked == l.ReplID
	if loaded, err := replies[0].AsIntSlice(); err == nil {
		l.ScriptsLoaded = slices.Contains(loaded, 1)
	}
	if l.Settings, err = replies[1].AsStrMap(); err != nil {
		l.Settings = nil
	}
	l.FsyncAlways = fsyncAlways(l.Settings)
	return nil
}

func (l *Looked) parseRegisters(reply resp.Reply) error {
	values, err := reply.AsStrSlice()
	if err == nil && len(values) != len(recorded) {
		err = engine.Misconfiguredf("a reply of %d values where %d were asked for", len(values), len(recorded))
	}
	if err != nil {
		return err
	}
	return l.record(values)
}

// Role is "primary", "replica", or how else the server says that it works.
func (l *Looked) Role() string {
	switch {
	case l.mode == "sentinel" || l.Clustered() && !l.InCluster:
		return l.mode
	case l.role == "master":
		return "primary"
	case l.role == "slave":
		return "replica"
	}
	return l.role
}

// Clock asks for the time.
func Clock() resp.Command { return resp.Command{"TIME"} }

// ParseClock reads the reply to Clock.
func ParseClock(reply resp.Reply, err error) (time.Time, error) {
	if err != nil {
		return time.Time{}, err
	}
	parts, err := reply.AsIntSlice()
	if err != nil || len(parts) != 2 {
		return time.Time{}, cmp.Or(err, engine.Misconfiguredf("the server's TIME is no time"))
	}
	// A server is not believed more than what can be computed with.
	return time.UnixMicro(bound(parts[0], mostClock/1_000_000)*1_000_000 + bound(parts[1], 999_999)), nil
}

// IsDenied reports whether the server's ACL refused a command, a key or a channel.
func IsDenied(err error) bool {
	reply, ok := resp.IsError(err)
	return ok && strings.HasPrefix(reply.Error(), "NOPERM")
}
