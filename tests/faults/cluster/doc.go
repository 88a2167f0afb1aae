// Package cluster is a group of real servers that know nothing of each other, each
// with a wall clock of its own and behind a proxy of its own. It has the operations
// that faults are made of, and undoes them even where several are at work.
package cluster
