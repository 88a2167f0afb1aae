// Package cluster is a group of real servers that know nothing of each other, each
// with a wall clock of its own and behind a proxy of its own. It has the operations
// that faults are made of, and undoes them even where several are at work.
//
// To add an engine is to add an Engine and a Group, a scheme to library.OpenNode, and the
// engine's name to the kinds of faults that need one (package kinds).
package cluster
