// Package worker has the client processes: what one does all day (takes locks, writes
// to the resource, notes what it was told), and the Group of them that a history
// starts, pauses, kills and replaces. A client is the program of its runner, see Main.
package worker
