package valkeynode_test

import (
	"flag"
	"os"
	"testing"
)

// Most tests wait for quarantines to pass, so that more of them can run at once
// than there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}
