//go:build linux || darwin || freebsd

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/filenode"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// engine is a kind of store that the command knows.
type engine struct {
	name    string
	schemes []string
	several bool // a URL may name several hosts, with commas between: one node all the same
	// open is nil for what only fenlock-all has (Extras).
	open func(ctx context.Context, raw, prefix string) (fenlock.Node, error)
}

// Names of engines that the command treats in a way of their own.
const (
	fileEngine   = "file"
	valkeyEngine = "Valkey"
	// clusterEngine is the same where the node is a cluster.
	clusterEngine = "Valkey Cluster"
)

var engines = []engine{
	{valkeyEngine, []string{"valkey", "valkeys", "redis", "rediss", "unix"}, false, openValkey},
	{valkeyEngine, []string{"valkey-sentinel", "valkeys-sentinel", "redis-sentinel", "rediss-sentinel"}, true, openValkey},
	{clusterEngine, []string{"valkey-cluster", "valkeys-cluster", "redis-cluster", "rediss-cluster"}, true, openValkey},
	// sqlite: is no scheme any more: filenode says what to write instead.
	{fileEngine, []string{"file", "sqlite"}, false, func(ctx context.Context, raw, _ string) (fenlock.Node, error) {
		return filenode.OpenContext(ctx, raw)
	}},
	{"PostgreSQL", []string{"postgres", "postgresql"}, true, nil},
	{"MySQL", []string{"mysql", "mariadb"}, false, nil},
	{"etcd", []string{"etcd", "etcds"}, true, nil},
	{"ZooKeeper", []string{"zk"}, true, nil},
	{"S3", []string{"s3"}, false, nil},
	{"NATS", []string{"nats"}, true, nil},
}

func openValkey(_ context.Context, raw, prefix string) (fenlock.Node, error) {
	return valkeynode.Open(raw, valkeynode.WithPrefix(prefix))
}

// schemeOf returns what a URL begins with, and whether it begins as one.
func schemeOf(raw string) (scheme string, ok bool) {
	for _, scheme = range []string{"file", "sqlite"} { // file:relative/path has no slashes
		if strings.HasPrefix(raw, scheme+":") {
			return scheme, true
		}
	}
	scheme, _, ok = strings.Cut(raw, "://")
	return scheme, ok
}

// engineOf returns the engine for a URL's scheme. Its error repeats nothing that
// could be a part of a password, as a comma in one would make it.
func engineOf(raw string) (*engine, error) {
	scheme, ok := schemeOf(raw)
	if i := slices.IndexFunc(engines, func(e engine) bool { return slices.Contains(e.schemes, scheme) }); ok && i >= 0 {
		return &engines[i], nil
	}
	want := "a URL begins with valkey://, valkeys:// (TLS), redis://, rediss:// (TLS), unix://, valkey-sentinel://"
	for _, e := range engines {
		if e.name != valkeyEngine {
			want += ", " + e.schemes[0] + "://"
		}
	}
	switch {
	case raw == "":
		// Not left out: a group that is one node short has another majority.
		return nil, errors.New("it is empty")
	case raw == localOnly:
		return nil, fmt.Errorf("%s is a lock of this machine only, and no node: say --local, or %s=%[1]s and nothing else",
			localOnly, nodesVariable)
	case !ok:
		return nil, fmt.Errorf("it has no scheme: %s (in %s, write a comma of a password as %%2C)", want, nodesVariable)
	case strings.Contains(scheme, "cluster"):
		return nil, fmt.Errorf(
			"the URL of a Valkey or Redis Cluster begins with valkey-cluster://, valkeys-cluster:// (TLS), redis-cluster://, rediss-cluster:// (TLS); %s", want)
	case strings.Contains(scheme, "sentinel"):
		return nil, fmt.Errorf("sentinels are named by valkey-sentinel:// (docs/valkey.md, “Sentinel”); %s", want)
	case strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz+") != "":
		return nil, errors.New(want)
	}
	return nil, fmt.Errorf("unknown scheme %q: %s", scheme, want)
}

// splitURLs splits a list of URLs at its commas. What has no scheme after one is another host
// of the URL before, where that may name several.
func splitURLs(list string) (urls []string) {
	for piece := range strings.SplitSeq(list, ",") {
		if _, begins := schemeOf(strings.TrimSpace(piece)); len(urls) > 0 && !begins {
			last := len(urls) - 1
			if e, err := engineOf(strings.TrimSpace(urls[last])); err == nil && e.several && piece != "" {
				urls[last] += "," + piece
				continue
			}
		}
		urls = append(urls, piece)
	}
	return urls
}
