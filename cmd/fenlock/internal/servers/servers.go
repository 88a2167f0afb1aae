// Package servers opens nodes of the engines that fenlock-all has and fenlock has not: their client
// libraries are most of a program that has them.
package servers

import (
	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/bucketnode"
	"github.com/fenlock/fenlock/node/etcdnode"
	"github.com/fenlock/fenlock/node/mysqlnode"
	"github.com/fenlock/fenlock/node/natsnode"
	"github.com/fenlock/fenlock/node/pgnode"
	"github.com/fenlock/fenlock/node/zknode"
)

// Open has what opens a node by its URL, by the names that package command has for the engines.
var Open = map[string]func(url string) (fenlock.Node, error){
	"PostgreSQL": func(url string) (fenlock.Node, error) { return pgnode.Open(url) },
	"MySQL":      func(url string) (fenlock.Node, error) { return mysqlnode.Open(url) },
	"etcd":       func(url string) (fenlock.Node, error) { return etcdnode.Open(url) },
	"ZooKeeper":  func(url string) (fenlock.Node, error) { return zknode.Open(url) },
	"S3":         func(url string) (fenlock.Node, error) { return bucketnode.Open(url) },
	"NATS":       func(url string) (fenlock.Node, error) { return natsnode.Open(url) },
}
