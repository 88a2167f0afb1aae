package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// Node is a node.Node, node.Queuer and node.Admin in a SQLite file. It is safe for
// concurrent use, by several processes too. Make one with Open or OpenFile; the zero Node is not
// usable.
type Node struct {
	file
	db   *sql.DB
	stmt statements
	sync string // how a synced transaction is, FULL but in tests

	boot  string               // id of this boot; leases of another are void
	clock func() time.Duration // meaningful within a boot

	mu        sync.Mutex
	closed    bool
	listeners map[string]*listener // by client
}

var (
	_ node.Node    = (*Node)(nil)
	_ node.Queuer  = (*Node)(nil)
	_ node.Admin   = (*Node)(nil)
	_ node.Located = (*Node)(nil)
)

// Open opens the node that a URL names: sqlite:///absolute/path or
// sqlite:relative/path, with %41 and the like decoded. It takes no parameters, and
// refuses unknown ones: a setting that is silently ignored is not set.
// See OpenFile for the rest.
func Open(rawURL string) (*Node, error) {
	path, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	return OpenFile(path)
}

func parse(rawURL string) (path string, err error) {
	// A URL with an @ is probably not meant for this engine, and may have a password in
	// it: neither it nor a part of it is shown.
	shown, detail := strconv.Quote(rawURL), func(part string) string { return strings.TrimSuffix(": "+part, ": ") }
	if strings.Contains(rawURL, "@") {
		shown, detail = "the URL (not shown: it has an @)", func(string) string { return "" }
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return "", engine.Invalidf("sqlnode: %s is not a URL%s", shown, detail(err.Error()))
	}
	switch path = u.Path; {
	case u.Scheme != "sqlite":
		return "", engine.Invalidf("sqlnode: %s is not a sqlite: URL", shown)
	case u.Host != "" || u.User != nil:
		return "", engine.Invalidf("sqlnode: %s names a host; an absolute path is written sqlite:///path, a relative one sqlite:path", shown)
	case u.Opaque != "":
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", engine.Invalidf("sqlnode: %s is not escaped as a URL is%s", shown, detail(err.Error()))
		}
	}
	if u.Fragment != "" || strings.HasSuffix(rawURL, "#") {
		return "", engine.Invalidf("sqlnode: %s: write %%23 for a # in the path", shown)
	}
	if u.RawQuery != "" || u.ForceQuery {
		return "", engine.Invalidf("sqlnode: %s has parameters%s (there are none; write %%3F for a ? in the path)", shown, detail(u.RawQuery))
	}
	return path, nil
}

// openPatience bounds how long Open waits while another process has the file
// locked.
const openPatience = 10 * time.Second

// opening serialises the creation of files: closing a descriptor drops all
// POSIX locks that the process has on the file, those of SQLite included.
var opening sync.Mutex

// OpenFile opens the node in the database file at path, and creates what is
// missing: the file with mode 0600, and the tables, but no folder. A
// relative path is made absolute at once. The tables' names begin
// with fenlock_; the file is switched to write-ahead logging.
//
// A file with several hard links, or that is mounted by itself, is refused with an error
// that matches node.ErrMisconfigured: its log and its locks would not be those of
// whoever comes by another name.
//
// ":memory:" is refused: it would lock nothing between processes. If a process
// holds the file's write lock for 10 s, OpenFile gives up.
func OpenFile(path string) (*Node, error) {
	if path == "" || path == ":memory:" || strings.ContainsRune(path, 0) {
		return nil, engine.Invalidf("sqlnode: %q is not a file that several processes can share", path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlnode: %s: %w", path, err)
	}
	n := &Node{file: file{path: absolute}, sync: "FULL", listeners: make(map[string]*listener)}
	n.setStatements()
	if err := n.open(); err != nil {
		return nil, n.errorf("open", err)
	}
	return n, nil
}

func (n *Node) open() error {
	var err error
	if n.clock, n.boot, err = machineClock(); err != nil {
		return err
	}
	opening.Lock()
	defer opening.Unlock()
	// Locks of this kind survive a close of the file elsewhere in the process.
	// Where they do not exist, or the process has used SQLite before, its own
	// stay in use.
	_, _ = sqlite.OFDLocking(true)
	if err := n.file.open(); err != nil {
		return err
	}
	if n.db, err = sql.Open("sqlite", dsn(n.path)); err != nil {
		return err
	}
	// SQLite has one writer at a time. Callers in this process queue for the
	// connection, first come first served, instead of polling the file's lock.
	n.db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	if err = n.prepare(ctx); err != nil {
		n.db.Close()
	}
	return err
}

// dsn returns the driver's name for the file. The settings are in it, because a
// PRAGMA that is executed reaches only the connection that happens to be used.
// mode=rw: a file that was deleted must not be created again. A busy timeout of
// 0: SQLite's wait for another process does not watch the context, ours does
// (transact). synchronous=NORMAL: a commit is in the log, and waits for the disk only
// where transact is told so. A short log, since whoever opens the file first has to
// read it (Leave).
func dsn(path string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/...
	}
	u := url.URL{Scheme: "file", Path: slashed,
		RawQuery: "mode=rw&_txlock=immediate&_busy_timeout=0&_journal_mode=WAL&_synchronous=NORMAL&_pragma=wal_autocheckpoint(100)&_dqs=0&_error_rc=1"}
	return u.String()
}

// String returns the absolute path of the file.
func (n *Node) String() string { return n.path }

// Engine returns n.
func (n *Node) Engine() any { return n }

// location is the path of a file.
type location string

// Location implements node.Located.
func (n *Node) Location() any { return location(n.path) }

// Leave does what Close does, but leaves the file open until the process ends, which
// is what it is for. The last one to close a file writes SQLite's log into it and
// removes the log, and the next one makes it anew: five waits for the disk, of seven
// that a lock takes then. A log that is left is read by whoever opens the file first,
// as after a crash; it belongs to the file, also where that is copied or moved, and to
// the user who left it. No operation may be begun after it.
func (n *Node) Leave() { n.closeListeners() }

// Close closes the file. Operations that are under way end, with or without
// success; leases stay. Its waiters cannot be notified any more, and there are no
// events after it. It is safe to call twice, but not from an event.
func (n *Node) Close() error {
	n.closeListeners()
	return n.errorf("close", n.db.Close())
}
