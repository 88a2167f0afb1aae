//go:build linux

package cluster

import (
	"slices"
	"time"
)

// Group is of which engines the servers of a cluster are.
type Group struct {
	Name    string
	Engines []*Engine // in turn
}

// Groups are what a campaign can run on, first the one that it does by default.
var Groups = []Group{
	{"valkey", []*Engine{Valkey}},
	{"postgres", []*Engine{Postgres}},
	{"mysql", []*Engine{MySQL}},
	{"etcd", []*Engine{Etcd}},
	{"zookeeper", []*Engine{ZooKeeper}},
	{"nats", []*Engine{NATS}},
	{"s3", []*Engine{S3}},
	{"mixed", []*Engine{Valkey, Postgres}},
	{"stores", []*Engine{Etcd, NATS, S3, ZooKeeper, MySQL}},
	{"file", []*Engine{File}},
}

// On returns the group of a name.
func On(name string) (Group, bool) {
	i := slices.IndexFunc(Groups, func(g Group) bool { return g.Name == name })
	if i < 0 {
		return Group{}, false
	}
	return Groups[i], true
}

// At returns the engine of a server, from 0.
func (g Group) At(i int) *Engine { return g.Engines[i%len(g.Engines)] }

// Usual is how many servers a group has if nothing else is said.
func (g Group) Usual() int {
	if g.Engines[0].Local {
		return 1
	}
	return 5
}

// TTL is the longest lease of the group. A server that lost its memory is out for a
// little more than twice as long.
func (g Group) TTL() (longest time.Duration) {
	for _, e := range g.Engines {
		longest = max(longest, e.TTL)
	}
	return longest
}

// Lingers is the longest of the engines'.
func (g Group) Lingers() (longest time.Duration) {
	for _, e := range g.Engines {
		longest = max(longest, e.Lingers)
	}
	return longest
}
