package sqlnode

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fenlock/fenlock/node"
)

// examineReads is how often the file is read, to find the shortest time that takes.
const examineReads = 3

var _ node.Examiner = (*Node)(nil)

// Examine implements node.Examiner. It reads the file in transactions that write nothing;
// what can be found out about it without is looked at first, as a file that cannot be
// read is one to ask about.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "SQLite", Role: "file", Member: n.path, Server: n.real}
	f, err := n.surroundings()
	if err == nil {
		err = n.readFor(ctx, &e, &f)
	}
	e.Admitted = err == nil
	e.Findings = f.findings()
	return e, n.errorf("examine", err)
}

// readFor reads the file a few times.
func (n *Node) readFor(ctx context.Context, e *node.Examination, f *surroundings) error {
	type read struct {
		version string
		bad     int
	}
	for range examineReads {
		before := time.Now()
		r, err := look(ctx, n, func(s *step) (r read) {
			const query = `SELECT sqlite_version(), (SELECT count(*) FROM fenlock_registers WHERE typeof(token) <> 'integer' OR token < 0 OR token > ?)`
			s.err = s.tx.QueryRowContext(s.ctx, query, int64(node.MaxRegister)).Scan(&r.version, &r.bad)
			return r
		})
		if err != nil {
			return err
		}
		if trip := time.Since(before); e.RoundTrip == 0 || trip < e.RoundTrip {
			e.RoundTrip = trip
		}
		e.Version, f.badRegisters = r.version, r.bad
	}
	return nil
}

// surroundings is what is around the file.
type surroundings struct {
	path         string
	mode         fs.FileMode // of the file
	folder       fs.FileMode
	log          int64  // bytes in SQLite's log
	filesystem   string // its kind, empty if that is not known
	space        uint64 // bytes that this user may still write
	spaceKnown   bool
	wallClock    bool // leases are measured by the wall clock
	badRegisters int
}

func (n *Node) surroundings() (s surroundings, err error) {
	s.path, s.wallClock = n.path, n.boot == ""
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
	log, err := os.Stat(n.real + "-wal")
	if err == nil {
		s.log = log.Size()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.filesystem, s.space, s.spaceKnown = filesystem(n.real)
	return s, nil
}

// Bounds of what is around a file.
const (
	leastSpace = 1 << 20  // one lock needs far less; less than this is a disk that is full
	fewSpace   = 64 << 20 // bytes
	longLog    = 64 << 20 // bytes; it is put away at some 400 KiB
)

// network are the file systems whose locks are those of another machine, or of nobody.
var network = map[string]bool{"nfs": true, "smbfs": true, "smb": true, "cifs": true, "smb2": true, "afs": true, "ceph": true, "ocfs2": true, "webdav": true}

// between are those that may lead to another machine, or to the host of a virtual one.
var between = map[string]bool{"fuse": true, "9p": true, "fusefs": true, "macfuse": true, "osxfuse": true}

// findings says what is wrong around the file, or will be.
func (s surroundings) findings() (found []node.Finding) {
	switch {
	case network[s.filesystem]:
		found = append(found, node.Found("network-file", node.Error, "The file is on a network file system (%s): machines do not see each other's locks there, or too late, and each takes the leases of the others for void.", s.filesystem).
			Do("Use a file on a disk of this machine. For several machines: three Valkey servers."))
	case between[s.filesystem]:
		found = append(found, node.Found("network-file", node.Warning, "The file is on a file system (%s) that may lead to another machine. If others use it from there, two of them can hold a lock.", s.filesystem).
			Do("Use a file on a disk of this machine, unless nobody else uses this one."))
	}
	if s.mode.Perm()&0o022 != 0 {
		found = append(found, node.Found("file-mode", node.Warning, "Other users may write to the file (%v): they can release locks and make up tokens.", s.mode.Perm()).
			Do("chmod 600 %s, or 660 with a group of those who share the locks.", s.path))
	}
	if s.folder.Perm()&0o002 != 0 && s.folder&fs.ModeSticky == 0 {
		found = append(found, node.Found("folder-mode", node.Warning, "All users may write in the file's folder (%v), and so put another file in its place.", s.folder.Perm()).
			Do("chmod o-w %s.", filepath.Dir(s.path)))
	}
	switch {
	case s.spaceKnown && s.space < leastSpace:
		found = append(found, node.Found("disk-space", node.Error, "The disk is full (%d KiB are left): no lock can be taken.", s.space>>10).
			Do("Free some space."))
	case s.spaceKnown && s.space < fewSpace:
		found = append(found, node.Found("disk-space", node.Warning, "The disk is nearly full (%d MiB are left). When it is, no lock can be taken.", s.space>>20).
			Do("Free some space."))
	}
	if s.log > longLog {
		found = append(found, node.Found("log-size", node.Warning, "SQLite's log beside the file (-wal) has %d MiB: somebody keeps a transaction open, so that it cannot be put away.", s.log>>20).
			Do("Find who has the file open (fuser -v %s): a sqlite3 shell, a backup that hangs, a process that is stopped.", s.path))
	}
	if s.wallClock {
		found = append(found, node.Found("wall-clock", node.Note, "On this system leases are measured by the wall clock: when it is set, they end too early or stay too long."))
	}
	if s.badRegisters > 0 {
		found = append(found, node.Found("registers", node.Error, "The table fenlock_registers has %d numbers that no fenlock writes: names of these stripes cannot be locked.", s.badRegisters).
			Do("Somebody wrote there. When nobody holds a lock, delete the file together with its -wal and -shm; tokens then start again from the wall clock, which is larger than every one before unless the clock was set back."))
	}
	return found
}
