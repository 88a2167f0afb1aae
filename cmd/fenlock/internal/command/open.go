//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/filenode"
	"golang.org/x/term"
)

// open returns the nodes of --node or --nodes-file, else of FENLOCK_NODES or FENLOCK_NODES_FILE,
// else, and with --local, the user's own file. It sends nothing to a server. The caller closes the
// nodes. The error says which node, by its place and without its password. A file is opened as long
// as the context lasts, as another process may have it locked.
func (f nodeFlags) open(ctx context.Context) ([]fenlock.Node, error) {
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	if all == nil {
		return f.openDefault(ctx)
	}
	var kinds []*engine
	for _, one := range all {
		engine, err := engineOf(one.url)
		if err != nil {
			return nil, exitf(exitUsage, "%s: %v", one.place, err)
		}
		if kinds = append(kinds, engine); engine.name == fileEngine && len(all) > 1 {
			return nil, exitf(exitUsage, "%s is a file: a file is of this machine only, and the only node; "+
				"name it alone, or servers that all machines use", one.place)
		}
	}
	if err := f.checkPrefix(kinds); err != nil {
		return nil, err
	}
	var nodes []fenlock.Node
	for i, one := range all {
		node, err := kinds[i].open(ctx, one.url, f.prefix)
		if err != nil {
			closeAll(nodes)
			status := exitNoQuorum
			if isUsage(err) {
				status = exitUsage
			}
			return nil, exitf(status, "%s: %s", one.place, flagNames.Replace(err.Error()))
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// openDefault opens the file that the user's processes on this machine share.
func (f nodeFlags) openDefault(ctx context.Context) ([]fenlock.Node, error) {
	file, _ := engineOf("file:")
	if err := f.checkPrefix([]*engine{file}); err != nil {
		return nil, err
	}
	path, err := defaultFile()
	if err != nil {
		return nil, err
	}
	if err := earlier(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, unusable(path, err)
	}
	node, err := filenode.OpenFileContext(ctx, path)
	if err != nil {
		return nil, unusable(path, err)
	}
	if !f.meantLocal() {
		tell := say
		if !term.IsTerminal(int(os.Stderr.Fd())) {
			// With --quiet too. Under cron, which passes no variables on, each of several machines
			// would have its own lock, and none a word of it.
			tell = sayError
		}
		tell("no servers are named (--node, %s): locks are for your processes on this machine only, in %s; --local says that this is meant", nodesVariable, path)
	}
	return []fenlock.Node{node}, nil
}

// folderOfYours is what to do without a home that one may write to: system users have none, and
// sudo may keep another one's.
const folderOfYours = "set XDG_STATE_HOME to a folder that this user may write to, or " + nodesVariable

// unusable is the error of a default file that cannot be opened.
func unusable(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) {
		return exitf(exitUsage, "the lock cannot be in %s: %s (%v)", path, folderOfYours, err)
	}
	return exitf(exitNoQuorum, "the lock cannot be in %s: %v", path, err)
}

// nodeTimeout returns for how long a node has to answer, 0 for the library's default. A file is not
// on a network that could hang: on a busy machine its answer comes late, and is as good.
func nodeTimeout(nodes []fenlock.Node, ttl time.Duration) time.Duration {
	if file, is := nodes[0].Engine().(*filenode.Node); is && !file.Binds() {
		return ttl / 4 // the most that the library allows
	}
	return 0
}

// earlier refuses the default file at path while the SQLite database of earlier versions is beside
// it. Locks of these versions are in that, so that both could have the same lock.
func earlier(path string) error {
	old := filepath.Join(filepath.Dir(path), "fenlock.db")
	if _, err := os.Lstat(old); err != nil {
		return nil
	}
	return exitf(exitNoQuorum, "%s is there: earlier versions of fenlock keep their locks in it; end all of them "+
		"that use it, then remove it (cd '%s' && rm -f fenlock.db fenlock.db-wal fenlock.db-shm)", old, filepath.Dir(path))
}

// defaultFile returns fenlock/locks in the state folder of the XDG base
// directory specification, which says to ignore a variable that is not absolute.
func defaultFile() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := os.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", exitf(exitUsage, "no nodes, and neither XDG_STATE_HOME nor HOME is an absolute path: %s", folderOfYours)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "fenlock", "locks"), nil
}

// checkPrefix refuses a prefix that would have no effect: who gives one expects
// to be kept apart from, or together with, other clients.
func (f nodeFlags) checkPrefix(all []*engine) error {
	keyed := func(e *engine) bool { return e.name == valkeyEngine || e.name == clusterEngine }
	if f.prefixSet && !slices.ContainsFunc(all, keyed) {
		return exitf(exitUsage, "--prefix is about the keys of Valkey and Redis: it means nothing for %s", all[0].name)
	}
	return nil
}

func closeAll(nodes []fenlock.Node) {
	for _, node := range nodes {
		node.Close()
	}
}
