//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/sqlnode"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// engines says which engine serves a URL's scheme.
var engines = map[string]string{
	"valkey": "Valkey", "valkeys": "Valkey", "redis": "Valkey", "rediss": "Valkey", "unix": "Valkey",
	"sqlite": "SQLite",
}

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
	kind := ""
	for _, one := range all {
		engine, err := engineOf(one.url)
		if err != nil {
			return nil, exitf(exitUsage, "%s: %v", one.place, err)
		}
		if kind != "" && kind != engine {
			return nil, exitf(exitUsage, "%s is %s, and the first node is %s: a group has nodes of one engine, because a token must mean the same on all", one.place, engine, kind)
		}
		kind = engine
	}
	if err := f.checkPrefix(kind); err != nil {
		return nil, err
	}
	var nodes []fenlock.Node
	for _, one := range all {
		node, err := f.openOne(kind, one.url)
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

func (f nodeFlags) openOne(engine, raw string) (fenlock.Node, error) {
	if engine == "SQLite" {
		return sqlnode.Open(raw)
	}
	return valkeynode.Open(raw, valkeynode.WithPrefix(f.prefix))
}

// openDefault opens the file that the user's processes on this machine share.
func (f nodeFlags) openDefault() ([]fenlock.Node, error) {
	if err := f.checkPrefix("SQLite"); err != nil {
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
func (f nodeFlags) checkPrefix(engine string) error {
	if f.prefixSet && engine == "SQLite" {
		return exitf(exitUsage, "--prefix is about the keys of Valkey and Redis: it means nothing for SQLite")
	}
	return nil
}

// engineOf returns the engine for a URL's scheme. Its error repeats nothing that
// could be a part of a password, as a comma in one would make it.
func engineOf(raw string) (string, error) {
	scheme, _, ok := strings.Cut(raw, "://")
	if strings.HasPrefix(raw, "sqlite:") { // sqlite:relative/path has no slashes
		scheme, ok = "sqlite", true
	}
	if engine := engines[scheme]; ok && engine != "" {
		return engine, nil
	}
	const want = "a URL begins with valkey://, valkeys:// (TLS), redis://, rediss:// (TLS), unix:// or sqlite://"
	switch {
	case raw == "":
		// Not left out: a group that is one node short has another majority.
		return "", errors.New("it is empty")
	case !ok:
		return "", fmt.Errorf("it has no scheme: %s (in %s, write a comma of a password as %%2C)", want, nodesVariable)
	case strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz+") != "":
		return "", errors.New(want)
	}
	return "", fmt.Errorf("unknown scheme %q: %s", scheme, want)
}

func closeAll(nodes []fenlock.Node) {
	for _, node := range nodes {
		node.Close()
	}
}
