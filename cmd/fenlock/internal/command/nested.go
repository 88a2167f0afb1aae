//go:build linux || darwin || freebsd

package command

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
	"github.com/fenlock/fenlock/node/filenode"
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
	case *filenode.Node:
		return fmt.Sprint("file ", engine.Location()) // the same by any path
	}
	return n.String()
}

// identities are of what a fenlock run holds, or would hold.
type identities struct {
	name  string
	slots []string // of its slots, if it has one of them
}

func identifyAll(nodes []fenlock.Node, prefix, name string, slots int) (i identities) {
	i.name = identify(nodes, prefix, name)
	for number := range slots {
		i.slots = append(i.slots, identify(nodes, prefix, name+"#"+strconv.Itoa(number)))
	}
	return i
}

// shared is the identity of a name that those share who have a slot.
func (i identities) shared() string { return i.name + "/slots" }

// with returns the variable for a command that runs under one lock more, or under one slot.
func (i identities) with(slot int) string {
	held := []string{i.name}
	if len(i.slots) > 0 {
		held = []string{i.shared(), i.slots[slot]}
	}
	entries := strings.Fields(os.Getenv(heldVariable))
	born, _ := processes.Birth(os.Getpid())
	for _, identity := range held {
		entries = append(entries, strings.Join([]string{identity, strconv.Itoa(os.Getpid()), born}, "@"))
	}
	return heldVariable + "=" + strings.Join(entries, " ")
}

// around returns the process id of a fenlock around this one that would make a wait endless, 0 if
// there is none. A client that wants a slot can get another one, unless all are held around it.
func (i identities) around() (pid int) {
	if pid = heldAround(i.name); pid != 0 {
		return pid
	}
	if len(i.slots) == 0 {
		return heldAround(i.shared())
	}
	for _, slot := range i.slots {
		if pid = heldAround(slot); pid == 0 {
			return 0
		}
	}
	return pid
}

// heldAround returns the process id of the fenlock around this one that holds the lock. It is 0 if
// there is none, or it has ended since: what a job has left behind may take the lock again.
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
