// Package valkeynode makes a Valkey (any version) or Redis (7 or later) primary a node of fenlock,
// by the client library valkey-go. Each node has one connection, on which no request is sent twice,
// and whose replies are checked before the library reads them. What a node is, and what is kept on
// the server, is in package respnode.
package valkeynode
