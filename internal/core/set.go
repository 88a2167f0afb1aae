package core

import "math/bits"

// MaxNodes bounds a quorum group. Redlock is described for five nodes; more than fifteen buy no
// safety and cost a request each. A fixed bound keeps an Attempt a plain value that can be copied
// and compared.
const MaxNodes = 15

// Set is a set of node indices.
type Set uint16

// Has reports whether node is in the set.
func (s Set) Has(node int) bool { return s&(1<<node) != 0 }

// With returns the set with node in it.
func (s Set) With(node int) Set { return s | 1<<node }

// Without returns the set without the node.
func (s Set) Without(node int) Set { return s &^ (1 << node) }

// Len returns the number of nodes in the set.
func (s Set) Len() int { return bits.OnesCount16(uint16(s)) }

// allOf returns the set of the nodes 0 to n-1.
func allOf(n int) Set { return 1<<n - 1 }
