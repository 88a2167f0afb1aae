// Package cluster is a group of real servers that do not communicate. Each has a wall clock of its
// own and is behind a proxy of its own. It has the operations that faults are made of, and undoes
// them even where several are at work.
//
// To add an engine, add an Engine and a Group, and a scheme to library.OpenNode. Add the engine's
// name to the kinds of faults that need one (package kinds).
package cluster
