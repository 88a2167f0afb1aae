// Package goredisnode makes a Valkey or Redis server a node of fenlock by a client of
// go-redis that is there already, with its TLS, credentials, dialer, pool and hooks.
//
// It is the engine of package respnode, as node/valkeynode is: the same scripts and keys,
// so that programs with either share locks, queues and all else on the same servers.
// docs/goredis.md says which options the client has to have, and what is better in
// valkeynode.
package goredisnode
