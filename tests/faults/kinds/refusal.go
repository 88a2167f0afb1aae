//go:build linux

package kinds

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/cluster"
)

// Faults by which a server refuses what it is asked, or answers nothing.
var refusalKinds = []Kind{
	{
		Name: "oom", On: onValkey, Shortest: 0.1, Longest: 3, Within: everybody,
		Inject: tell("CONFIG SET maxmemory-policy noeviction maxmemory 1",
			"CONFIG SET maxmemory 0 maxmemory-policy noeviction"),
	},
	{
		// Of a server that is not there, so that it keeps its data. It was a replica
		// nevertheless, and is out until the quarantine is over.
		Name: "readonly", On: onValkey, Forgets: true, Shortest: 0.1, Longest: 3, Within: everybody,
		Inject: tell("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
	},
	{
		Name: "misconf", On: onValkey, Shortest: 0.1, Longest: 3, Within: everybody,
		Inject: misconf,
	},
	{
		// The server ends it by itself: it would not listen to a client. heal waits for that.
		Name: "client pause", On: onValkey, Within: everybody,
		Inject: func(s *Scene) (Heal, error) {
			if s.Member().Clock.Off() != 0 {
				// A pause ends by that clock: when it is put back, in up to a year.
				return nil, fmt.Errorf("%w: the server's clock is set", cluster.ErrNotNow)
			}
			ms := (0.5 + s.RNG.Float64()*2.5) * float64(s.TTL.Milliseconds())
			return tell(fmt.Sprintf("CLIENT PAUSE %.0f ALL", ms), "CLIENT UNPAUSE")(s)
		},
	},
	{
		// Everything, the writes, the scripts, or the channels.
		Name: "acl", On: onValkey, Shortest: 0.1, Longest: 3, Within: everybody,
		Inject: func(s *Scene) (Heal, error) {
			rule := []string{"-@all", "-@write", "-evalsha", "resetchannels"}[s.RNG.IntN(4)]
			return tell("ACL SETUSER default "+rule, "ACL SETUSER default reset on nopass ~* &* +@all")(s)
		},
	},
}

// tell is for what a command does to a server, and another one undoes.
func tell(change, undo string) func(*Scene) (Heal, error) {
	return func(s *Scene) (Heal, error) {
		return s.Member().Configure(strings.Fields(change), strings.Fields(undo))
	}
}

// misconf lets a snapshot fail, after which the server refuses to write. The file's
// name is a folder's: permissions would not stop a server that runs as root.
func misconf(s *Scene) (Heal, error) {
	m := s.Member()
	dir, err := m.Ask(cluster.Patience, "CONFIG", "GET", "dir")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cluster.ErrNotNow, err)
	}
	folder := filepath.Join(strings.TrimSuffix(strings.TrimPrefix(dir, "[dir "), "]"), "snapshot")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o700); err != nil {
		return nil, err
	}
	return m.ConfigureUntil(
		[]string{"CONFIG", "SET", "dbfilename", "snapshot", "save", "3600 1000000"},
		[]string{"CONFIG", "SET", "save", "", "dbfilename", "dump.rdb"},
		func() bool {
			info, err := m.Ask(cluster.Brief, "INFO", "persistence")
			if err != nil || testserver.Field(info, "rdb_last_bgsave_status") == "err" {
				return err == nil
			}
			m.Ask(cluster.Brief, "BGSAVE") // refused while a file is written
			return false
		})
}
