// Package transport is the connection of a node to its server, by the client library:
// one, for all that is sent (conn.go), with what the server replies checked before the
// library reads it (framing.go).
package transport
