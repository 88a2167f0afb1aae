// Package goredisnode makes a Valkey or Redis server a node of fenlock. It uses an existing client
// of go-redis, with its TLS, credentials, dialer, pool and hooks.
//
// It is the engine of package respnode, as node/valkeynode is. The scripts and keys are the same,
// so programs with either share locks, queues and all else on the same servers. docs/goredis.md
// says which options the client has to have, and what is better in valkeynode.
package goredisnode
