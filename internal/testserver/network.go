//go:build linux

package testserver

import (
	"os/exec"
	"strings"
	"testing"
)

// Network reports whether this process has a network of its own, as a test is about to partition.
// If it has not, the test runs in another process that has one. Then there is nothing left to do
// here.
//
// The whole of 127.0.0.0/8 is its loopback device's. A server that is bound to an address of its
// own, and connects from it (bind-source-addr), is a host of this network.
func Network(t *testing.T) bool {
	t.Helper()
	if !Apart(t, "-Urn") {
		return false
	}
	mustIP(t, "link set lo up")
	// Then rules can be looked up before the table of local addresses.
	mustIP(t, "rule add pref 1000 lookup local")
	mustIP(t, "rule del pref 0")
	return true
}

// Partition has no packet pass between the addresses of two sets, in either direction, until heal
// is called. It needs Network.
func Partition(t testing.TB, some, others []string) (heal func()) {
	t.Helper()
	each := func(action string) {
		for _, a := range some {
			for _, b := range others {
				mustIP(t, "rule "+action+" pref 5 from "+a+" to "+b+" blackhole")
				mustIP(t, "rule "+action+" pref 5 from "+b+" to "+a+" blackhole")
			}
		}
	}
	each("add")
	return func() { each("del") }
}

func mustIP(t testing.TB, arguments string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(arguments)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s (iproute2): %v: %s", arguments, err, out)
	}
}
