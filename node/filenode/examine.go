//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/fenlock/fenlock/node"
)

var _ node.Examiner = (*Node)(nil)

// Examine implements node.Examiner. It reads all rooms, and writes nothing; what can be found out
// without reading is looked at first, as a file that cannot be read is one to ask about.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "file", Version: strconv.Itoa(version), Role: "file", Member: n.path, Server: n.real}
	s, err := n.surroundings()
	for number := range rooms {
		if err != nil {
			break
		}
		before := time.Now()
		_, err = in(ctx, n, number, false, func() (*room, error) { return readRoom(n, &n.header, number) })
		if trip := time.Since(before); e.RoundTrip == 0 || trip < e.RoundTrip {
			e.RoundTrip = trip
		}
	}
	e.Admitted = err == nil
	e.Findings = s.findings()
	return e, n.errorf("examine", err)
}

// surroundings is what is around the file.
type surroundings struct {
	path       string
	mode       fs.FileMode // of the file
	folder     fs.FileMode
	filesystem string // its kind, empty if that is not known
	space      uint64 // bytes that this user may still write
	spaceKnown bool
	wallClock  bool // leases are measured by the wall clock
}

func (n *Node) surroundings() (s surroundings, err error) {
	s.path, s.wallClock = n.path, runtime.GOOS != "linux"
	if err = n.unchanged(); err != nil {
		return s, err
	}
	file, err := os.Stat(n.real)
	if err != nil {
		return s, err
	}
	folder, err := os.Stat(filepath.Dir(n.real))
	if err != nil {
		return s, err
	}
	s.mode, s.folder = file.Mode(), folder.Mode()
	s.filesystem, s.space, s.spaceKnown = filesystem(n.real)
	return s, nil
}

// Bounds of what is around a file.
const (
	leastSpace = 1 << 20  // one lock needs far less; less than this is a disk that is full
	fewSpace   = 64 << 20 // bytes
)

// between are those that may lead to another machine, or to the host of a virtual one.
var between = map[string]bool{"fuse": true, "9p": true, "fusefs": true, "macfuse": true, "osxfuse": true}

// findings says what is wrong around the file, or will be.
func (s surroundings) findings() (found []node.Finding) {
	if between[s.filesystem] {
		found = append(found, node.Found("network-file", node.Warning, "The file is on a file system (%s) that may lead to another machine. If others use it from there, two of them can hold a lock.", s.filesystem).
			Do("Use a file on a disk of this machine, unless no other machine uses this one."))
	}
	if s.mode.Perm()&0o022 != 0 {
		found = append(found, node.Found("file-mode", node.Warning,
			"Other users may write to the file (%v): they can release locks and make up tokens.", s.mode.Perm()).
			Do("chmod 600 %s, or 660 with a group of those who share the locks.", s.path))
	}
	if s.folder.Perm()&0o002 != 0 && s.folder&fs.ModeSticky == 0 {
		found = append(found, node.Found("folder-mode", node.Warning,
			"All users may write in the file's folder (%v), and so put another file in its place.", s.folder.Perm()).
			Do("chmod o-w %s.", filepath.Dir(s.path)))
	}
	switch {
	case s.spaceKnown && s.space < leastSpace:
		found = append(found, node.Found("disk-space", node.Error, "The disk is full (%d KiB are left). Names can be locked where the file has room for them, as for most that were locked before, and others not.", s.space>>10).
			Do("Free some space."))
	case s.spaceKnown && s.space < fewSpace:
		found = append(found, node.Found("disk-space", node.Warning, "The disk is nearly full (%d MiB are left). When it is, names that were never locked before can mostly not be locked.", s.space>>20).
			Do("Free some space."))
	}
	if s.wallClock {
		found = append(found, node.Found("wall-clock", node.Note,
			"On this system leases are measured by the wall clock: when it is set, they end too early or stay too long."))
	}
	return found
}
