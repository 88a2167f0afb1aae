// Package worker has the client processes. It has what one does all day: it takes locks, writes to
// the resource, notes what it was told. It also has the Group of them that a history starts,
// pauses, kills and replaces. A client is the program of its runner, see Main.
package worker
