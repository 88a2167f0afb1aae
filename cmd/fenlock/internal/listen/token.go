package listen

import "crypto/rand"

// PageAddress is where the page of fenlock ui is, unless it is told otherwise. 5625 is how a
// telephone spells LOCK.
const PageAddress = "127.0.0.1:5625"

// MinToken is the length of the shortest token, in bytes: it is all that keeps others
// out, and nothing keeps them from trying.
const MinToken = 16

// NewToken returns a token that cannot be guessed.
func NewToken() string { return rand.Text() }
