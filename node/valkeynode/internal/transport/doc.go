// Package transport carries requests to a server: over one connection (conn.go), many
// in one write (pipeline.go), and by a slow path where the server has to be connected
// to, looked at or admitted first (slowpath.go).
package transport
