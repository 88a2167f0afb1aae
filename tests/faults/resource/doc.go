// Package resource is what the locks protect: a number for each name, which client
// processes read and write over a loopback port. A guard refuses tokens that are too
// old, and everything that was done is written down in its order.
package resource
