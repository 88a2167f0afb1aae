// Package examine says what is wrong with a server, or will be, from what package command
// has read of it. It decides without I/O.
package examine
