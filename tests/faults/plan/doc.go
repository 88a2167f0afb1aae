// Package plan deals the kinds of faults to a history by its seed: which two of them
// overlap, when, and on which servers. Nothing else decides it, so that a seed makes
// the same faults again.
package plan
