//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Faults by which a server refuses what it is asked, or answers nothing.
var refusalKinds = []kind{
	{
		name: "oom", shortest: 0.1, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) {
			return s.member().configure(
				commands("CONFIG SET maxmemory-policy noeviction maxmemory 1"),
				commands("CONFIG SET maxmemory 0 maxmemory-policy noeviction"))
		},
	},
	{
		// Of a server that is not there, so that it keeps its data. It was a replica
		// nevertheless, and is out until the quarantine is over.
		name: "readonly", forgets: true, shortest: 0.1, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) {
			return s.member().configure(commands("REPLICAOF 127.0.0.1 1"), commands("REPLICAOF NO ONE"))
		},
	},
	{
		name: "misconf", shortest: 0.1, longest: 3, within: anybody,
		inject: misconf,
	},
	{
		// The server ends it by itself: it would not listen to anybody. heal waits for that.
		name: "client pause", within: anybody,
		inject: func(s *scene) (func() error, error) {
			ms := s.between(0.5, 3).Milliseconds()
			return s.member().configure(commands(fmt.Sprintf("CLIENT PAUSE %d ALL", ms)), commands("CLIENT UNPAUSE"))
		},
	},
	{
		// Everything, the writes, the scripts, or the channels.
		name: "acl", shortest: 0.1, longest: 3, within: anybody,
		inject: func(s *scene) (func() error, error) {
			rule := []string{"-@all", "-@write", "-evalsha", "resetchannels"}[s.rng.IntN(4)]
			return s.member().configure(
				commands("ACL SETUSER default "+rule),
				commands("ACL SETUSER default reset on nopass ~* &* +@all"))
		},
	},
}

// commands splits commands into words.
func commands(lines ...string) (all [][]string) {
	for _, line := range lines {
		all = append(all, strings.Fields(line))
	}
	return all
}

// misconf lets a snapshot fail, after which the server refuses to write. The file's
// name is a folder's: permissions would not stop a server that runs as root.
func misconf(s *scene) (heal func() error, err error) {
	m := s.member()
	dir, err := m.ask(patientTimeout, "CONFIG", "GET", "dir")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotNow, err)
	}
	folder := filepath.Join(strings.TrimSuffix(strings.TrimPrefix(dir, "[dir "), "]"), "snapshot")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o700); err != nil {
		return nil, err
	}
	return m.configureUntil(
		[][]string{{"CONFIG", "SET", "dbfilename", "snapshot", "save", "3600 1000000"}},
		[][]string{{"CONFIG", "SET", "save", "", "dbfilename", "dump.rdb"}},
		func() bool {
			info, err := m.ask(askTimeout, "INFO", "persistence")
			if err != nil || field(info, "rdb_last_bgsave_status") == "err" {
				return err == nil
			}
			m.ask(askTimeout, "BGSAVE") // refused while a file is written
			return false
		})
}
