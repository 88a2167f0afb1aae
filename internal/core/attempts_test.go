//go:build !three

package core_test

// maxAttempts is how many attempts a state of the search has room for.
const maxAttempts = 2
