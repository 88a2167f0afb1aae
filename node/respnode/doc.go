// Package respnode is the engine for Valkey and Redis over any client library: all of it but the
// connection. A program uses node/valkeynode, which brings a client library, or node/goredisnode,
// for a client that is there already. A program with yet another client gives this package a
// resp.Link.
//
// A node's operations are constant Lua scripts with declared keys, run by EVALSHA only. Only the
// admission of a server that has been started, flushed or promoted loads them. So a server that
// forgot its leases does not vote until they have run out and its registers were rebuilt from the
// others.
//
// A server has the leases, the waiter queues and the registers. With the default prefix, leases are
// strings named fenlock:NAME, with a time to live; those that share a name have one string
// together. Queues are sorted sets named fenlock-line:fenlock:NAME, with a time to live. The
// registers are one hash named fenlock-registers:fenlock:, without a time to live. It has at most
// 4,096 registers and a few fields of admission's, the number of this format among them. A waiter
// is notified by a message on the channel fenlock-wake:CLIENT. docs/valkey.md has the least
// permissions that a user needs.
//
// The package has the API. internal/pipeline carries requests to the server,
// internal/admission answers whether that may vote, internal/command builds commands
// and reads replies: each uses those after it only. internal/examine says what is wrong
// with a server, by the last two.
package respnode
