//go:build unix

package testserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Format is the number of what fenlock keeps on a server, in the registers' field
// "format". The engine's own tests compare it with theirs.
const Format = "3"

// RegistersKey is the key of the registers of the locks with a prefix.
func RegistersKey(prefix string) string { return "fenlock-registers:" + prefix }

// MarkAdmitted writes what an admission leaves on a server, so that a test need not wait for a
// quarantine that it is not about. It does so for the locks with a prefix, a longest lease, and
// whether each write is on disk before it is answered. Ask sends a command, as Server.Ask does.
func MarkAdmitted(ask func(args ...string) (string, error), prefix string, maxTTL time.Duration, durable bool) error {
	info, err := ask("INFO", "replication")
	if err != nil {
		return err
	}
	onDisk := "0"
	if durable {
		onDisk = "1"
	}
	reply, err := ask("HSET", RegistersKey(prefix), "admitted", Field(info, "master_replid"), "format", Format,
		"maxttl", strconv.FormatInt(maxTTL.Milliseconds(), 10), "durable", onDisk)
	if _, refused := strconv.Atoi(reply); err == nil && refused != nil {
		err = fmt.Errorf("HSET: %s", reply)
	}
	return err
}

// IsAdmitted reports whether a server votes on the locks with a prefix, as far as it can
// know. False also if it does not answer.
func IsAdmitted(ask func(args ...string) (string, error), prefix string) bool {
	mark, err := ask("HGET", RegistersKey(prefix), "admitted")
	if err != nil {
		return false
	}
	mark, _, _ = strings.Cut(mark, "/") // the number of replicas follows
	info, err := ask("INFO", "replication")
	return err == nil && Field(info, "master_replid") == mark && Field(info, "role") == "master"
}

// MarkAdmitted is the function of that name, on the test's goroutine.
func (s *Server) MarkAdmitted(prefix string, maxTTL time.Duration) {
	s.t.Helper()
	if err := MarkAdmitted(s.operate, prefix, maxTTL, false); err != nil {
		s.t.Fatal(err)
	}
}

// IsAdmitted is the function of that name, safe for concurrent use.
func (s *Server) IsAdmitted(prefix string) bool { return IsAdmitted(s.operate, prefix) }
