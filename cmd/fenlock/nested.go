//go:build linux || darwin || freebsd

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
	"github.com/fenlock/fenlock/node/sqlnode"
)

// identify makes an identity of a lock: the nodes it is on, however they are spelled, and
// its name there.
func identify(nodes []fenlock.Node, prefix, name string) string {
	var names []string
	for _, n := range nodes {
		names = append(names, member(n))
	}
	slices.Sort(names)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", names, prefix, name))
	return fmt.Sprintf("%x", sum[:12])
}

// member is what a node is called by all who use it.
func member(n fenlock.Node) string {
	switch engine := n.Engine().(type) {
	case interface{ Member() string }:
		return engine.Member()
	case *sqlnode.Node:
		if path, err := filepath.EvalSymlinks(engine.String()); err == nil {
			return path
		}
	}
	return n.String()
}

// heldWith returns the variable for a command that runs under one lock more.
func heldWith(identity string) string {
	born, _ := processes.Birth(os.Getpid())
	entry := strings.Join([]string{identity, strconv.Itoa(os.Getpid()), born}, "@")
	return heldVariable + "=" + strings.TrimSpace(os.Getenv(heldVariable)+" "+entry)
}

// heldAround returns the process id of the fenlock around this one that holds the lock,
// 0 if there is none, or it has ended since: what a job has left behind may take the
// lock again.
func heldAround(identity string) (pid int) {
	for _, entry := range strings.Fields(os.Getenv(heldVariable)) {
		parts := strings.Split(entry, "@")
		if len(parts) != 3 || parts[0] != identity {
			continue
		}
		pid, _ := strconv.Atoi(parts[1])
		if born, alive := processes.Birth(pid); pid > 0 && alive && born == parts[2] {
			return pid
		}
	}
	return 0
}
