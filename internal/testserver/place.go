//go:build unix

package testserver

import "testing"

// Place is where a server runs.
type Place struct {
	Host string   // the address that it listens on, at which this process reaches it
	Via  []string // what its command follows, such as ip netns exec NAME
}

// places returns the place of a server that a test starts; nil: all are on 127.0.0.1.
var places func(t testing.TB) Place

// Elsewhere has all Valkey and Redis servers that are started from now on run in places of their
// own. It is for TestMain.
func Elsewhere(place func(t testing.TB) Place) { places = place }
