//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/sqlnode"
)

// open returns the nodes of --node or --nodes-file, else of FENLOCK_NODES or
// FENLOCK_NODES_FILE, else the user's SQLite file. It sends nothing to a server. The
// caller closes the nodes. The error says which node, by its place and without its
// password.
func (f nodeFlags) open() ([]fenlock.Node, error) {
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	if all == nil {
		return f.openDefault()
	}
	var kinds []*engine
	for _, one := range all {
		engine, err := engineOf(one.url)
		if err != nil {
			return nil, exitf(exitUsage, "%s: %v", one.place, err)
		}
		if kinds = append(kinds, engine); (engine.name == sqliteEngine) != (kinds[0].name == sqliteEngine) {
			return nil, exitf(exitUsage, "%s is %s, and the first node is %s: a SQLite file is of this machine only, and cannot be in a group with servers that other machines use", one.place, engine.name, kinds[0].name)
		}
	}
	if err := f.checkPrefix(kinds); err != nil {
		return nil, err
	}
	var nodes []fenlock.Node
	for i, one := range all {
		node, err := kinds[i].open(one.url, f.prefix)
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
func (f nodeFlags) openDefault() ([]fenlock.Node, error) {
	sqlite, _ := engineOf("sqlite:")
	if err := f.checkPrefix([]*engine{sqlite}); err != nil {
		return nil, err
	}
	path, err := defaultFile()
	if err != nil {
		return nil, exitf(exitUsage, "no nodes: set %s (%v)", nodesVariable, err)
	}
	say("no --node and no %s: the lock is in %s, among your processes on this machine only", nodesVariable, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, exitf(exitNoQuorum, "%v", err)
	}
	node, err := sqlnode.OpenFile(path)
	if err != nil {
		return nil, exitf(exitNoQuorum, "%s: %v", path, err)
	}
	return []fenlock.Node{leaving{node}}, nil
}

// leaving is a SQLite node of a program that ends soon, on a file that nobody else uses:
// what it leaves beside the file belongs to this user.
type leaving struct{ *sqlnode.Node }

func (n leaving) Close() error {
	n.Leave()
	return nil
}

// defaultFile returns fenlock/fenlock.db in the state folder of the XDG base
// directory specification, which says to ignore a variable that is not absolute.
func defaultFile() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := os.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is an absolute path")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "fenlock", "fenlock.db"), nil
}

// checkPrefix refuses a prefix that would have no effect: who gives one expects
// to be kept apart from, or together with, other clients.
func (f nodeFlags) checkPrefix(all []*engine) error {
	if f.prefixSet && !slices.ContainsFunc(all, func(e *engine) bool { return e.name == valkeyEngine }) {
		return exitf(exitUsage, "--prefix is about the keys of Valkey and Redis: it means nothing for %s", all[0].name)
	}
	return nil
}

func closeAll(nodes []fenlock.Node) {
	for _, node := range nodes {
		node.Close()
	}
}
