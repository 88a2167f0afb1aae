// Package transport is the connection of a node to its server, by the client library. There is one
// for all that is sent (conn.go). What the server replies is checked before the library reads it
// (framing.go).
package transport
