//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// Node is a node.Node, node.Queuer and node.Admin in a file. It is safe for concurrent use, by
// several processes too. Make one with Open or OpenFile; the zero Node is not usable.
type Node struct {
	file
	clock func() time.Duration // meaningful within a boot
	turns engine.Turns         // the kernel's locks are between nodes
	bound bound
	ends  ends
	life  sync.RWMutex // read by operations, until the file may be closed

	mu        sync.Mutex
	closed    bool
	listeners map[string]*listener // by client
}

var (
	_ node.Node    = (*Node)(nil)
	_ node.Queuer  = (*Node)(nil)
	_ node.Admin   = (*Node)(nil)
	_ node.Sharer  = (*Node)(nil)
	_ node.Located = (*Node)(nil)
)

// Open opens the node that a URL names: file:///absolute/path or file:relative/path, with %41 and
// the like decoded. It takes no parameters, and refuses unknown ones: a setting that is silently
// ignored is not set. See OpenFile for the rest.
func Open(rawURL string) (*Node, error) { return OpenContext(context.Background(), rawURL) }

// OpenContext is Open for a caller that does not wait longer than the context lasts, see
// OpenFileContext.
func OpenContext(ctx context.Context, rawURL string) (*Node, error) {
	path, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	return OpenFileContext(ctx, path)
}

func parse(rawURL string) (path string, err error) {
	// A URL with an @ is probably not meant for this engine, and may have a password in it. Neither
	// it nor a part of it is shown.
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
		return "", engine.Invalidf("filenode: %s is not a URL%s", shown, detail(err.Error()))
	}
	switch path = u.Path; {
	case u.Scheme == "sqlite":
		return "", engine.Invalidf("filenode: %s: fenlock keeps no SQLite databases any more; write file: instead of sqlite:, with the path of a new file", shown)
	case u.Scheme != "file":
		return "", engine.Invalidf("filenode: %s is not a file: URL", shown)
	case u.Host != "" || u.User != nil:
		return "", engine.Invalidf(
			"filenode: %s names a host; an absolute path is written file:///path, a relative one file:path", shown)
	case u.Opaque != "":
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", engine.Invalidf("filenode: %s is not escaped as a URL is%s", shown, detail(err.Error()))
		}
	}
	if u.Fragment != "" || strings.HasSuffix(rawURL, "#") {
		return "", engine.Invalidf("filenode: %s: write %%23 for a # in the path", shown)
	}
	if u.RawQuery != "" || u.ForceQuery {
		return "", engine.Invalidf("filenode: %s has parameters%s (there are none; write %%3F for a ? in the path)", shown,
			detail(u.RawQuery))
	}
	return path, nil
}

// OpenFile opens the node in the file at path, and makes the file if it is missing, with mode 0600,
// but no folder. A relative path is made absolute at once.
//
// The error matches node.ErrMisconfigured if the file is something else, is damaged, or was made by
// a newer fenlock. It also does if the file is on a network file system, or is open in another boot
// (see the package).
func OpenFile(path string) (*Node, error) { return OpenFileContext(context.Background(), path) }

// OpenFileContext is OpenFile for a caller that does not wait longer than the context lasts. A
// process that makes the file, or begins it anew after a boot, has it locked meanwhile, for ever if
// it is stopped. The error matches that of ctx then, and the file is closed when it has been
// opened.
func OpenFileContext(ctx context.Context, path string) (*Node, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, engine.Invalidf("filenode: %q is not the path of a file", path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("filenode: %s: %w", path, err)
	}
	n := newIn(absolute)
	now, boot, err := machineClock()
	if err != nil {
		return nil, n.errorf("open", err)
	}
	opened := make(chan error, 1)
	if ctx.Err() != nil {
		return nil, newIn(absolute).errorf("open", tooShort(ctx))
	}
	if ctx.Done() == nil {
		opened <- n.openIn(boot, now)
	} else {
		go func() { opened <- n.openIn(boot, now) }() // the kernel cannot be interrupted
	}
	select {
	case err = <-opened:
	case <-ctx.Done():
		go func() {
			if <-opened == nil {
				n.Close()
			}
		}()
		err = tooShort(ctx)
		if n.locking.Load() {
			err = fmt.Errorf("another process has not finished opening the file, and has it locked (is it stopped?): %w",
				ctx.Err())
		}
		err = newIn(absolute).errorf("open", err)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

func tooShort(ctx context.Context) error {
	return fmt.Errorf("the time was too short to open the file: %w", ctx.Err())
}

// newIn returns a node that is not open.
func newIn(path string) *Node {
	n := &Node{file: file{path: path}, listeners: make(map[string]*listener),
		ends: ends{tell: make(map[node.Holder]string)}}
	n.bound.locks = &n.locks
	return n
}

// openIn opens the file in a boot, by whose clock it counts.
func (n *Node) openIn(boot string, now func() time.Duration) error {
	n.clock = now
	err := n.open(boot)
	if n.header.state == settled { // else the first raise settles it
		n.ceiling.Store(uint64(n.header.ceiling))
	}
	if err != nil && n.medium != nil {
		n.medium.Close()
	}
	return n.errorf("open", err)
}

// String returns the absolute path of the file.
func (n *Node) String() string { return n.path }

// Engine returns n.
func (n *Node) Engine() any { return n }

// Location implements node.Located: the device and the inode of the file.
func (n *Node) Location() any { return n.place }

// Shares implements node.Sharer.
func (n *Node) Shares() {}

// Close closes the file. Operations after it return an error; leases stay. Its waiters cannot be
// notified any more, and there are no events after it. It is safe to call twice, but not from an
// event.
func (n *Node) Close() error {
	n.mu.Lock()
	first := !n.closed
	n.closed = true
	n.mu.Unlock()
	n.closeListeners()
	if !first {
		return nil
	}
	if n.life.TryLock() {
		defer n.life.Unlock()
		n.bound.close()
		return n.errorf("close", n.medium.Close())
	}
	// An operation may wait for a process that is stopped. It ends by itself, and so does this.
	go func() {
		n.life.Lock()
		defer n.life.Unlock()
		n.bound.close()
		n.medium.Close()
	}()
	return nil
}

func (n *Node) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// locked runs f under the lock of a room.
func (n *Node) locked(ctx context.Context, room int, f func() error) error {
	leave, err := n.turns.Take(ctx, turnOf(room))
	if err != nil {
		return node.NotSent(err)
	}
	defer leave()
	if !n.life.TryRLock() { // it is about to be closed
		return node.NotSent(engine.ErrClosed)
	}
	defer n.life.RUnlock()
	if n.isClosed() {
		return node.NotSent(engine.ErrClosed)
	}
	if err := n.locks.lock(room); err != nil {
		return node.NotSent(err)
	}
	defer n.locks.unlock(room)
	return f()
}

// grace is for how long a caller waits for what it cannot interrupt.
const grace = 50 * time.Millisecond

// in runs f under the lock of a room, in a turn of its own, and returns what it returns. A context
// cannot interrupt the kernel: if it is done, f either does not run, and the error matches
// node.ErrNotSent, or goes on alone. If always, it runs also if the context ends while it waits for
// another process: what is released late is better than never. Only the operation that has the turn
// does, so that no more than one waits for each room.
func in[T any](ctx context.Context, n *Node, room int, always bool, f func() (T, error)) (result T, err error) {
	if err := ctx.Err(); err != nil {
		return result, node.NotSent(err)
	}
	const waiting, runs, givenUp = 0, 1, 2
	type outcome struct {
		result T
		err    error
	}
	var state atomic.Int32
	done := make(chan outcome, 1)
	go func() {
		deepen(-1)
		var o outcome
		o.err = n.locked(ctx, room, func() (err error) {
			if !state.CompareAndSwap(waiting, runs) {
				return nil
			}
			if err = n.unchanged(); err == nil {
				o.result, err = f()
			}
			return err
		})
		done <- o
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
	}
	if !always && state.CompareAndSwap(waiting, givenUp) {
		return result, node.NotSent(fmt.Errorf("another operation has the file locked (is its process stopped?): %w",
			ctx.Err()))
	}
	select { // f's own error says more, if it is near
	case o := <-done:
		return o.result, o.err
	case <-time.After(grace):
		return result, fmt.Errorf("the file did not answer: %w", ctx.Err())
	}
}

// deepen has the stack grow once, while there is nothing on it that has to be looked up and moved.
//
//go:noinline
func deepen(at int) byte {
	if at < 0 {
		return 0
	}
	var room [6 << 10]byte
	return room[at]
}

// errorf names the node in an error, and adds what a person can do.
func (n *Node) errorf(op string, err error) error {
	if of, is := err.(*fs.PathError); is && (of.Path == n.path || of.Path == n.real) {
		err = of.Err // which file it is comes first
	}
	// What stays until it is mended ends a wait: a waiter would not hear of that.
	advice, lasting := "", false
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice, lasting = "free some space", op != "open"
	case errors.Is(err, syscall.EROFS):
		advice, lasting = "use a file on a disk that can be written to", true
	case errors.Is(err, fs.ErrPermission):
		advice, lasting = "this user must be allowed to read and write the file, and to make it in its folder", true
	case errors.Is(err, syscall.EIO):
		advice = "look at the disk and the kernel's log"
	}
	return engine.Named("file "+n.path, op,
		engine.Explain(err, advice, lasting && (op == "open" || op == node.Acquire.String())))
}
