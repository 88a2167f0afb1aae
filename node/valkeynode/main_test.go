package valkeynode_test

import (
	"flag"
	"os"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// All tests are allowed what the nodes need, and nothing else.
//
// Most tests wait for quarantines to pass, so that more of them can run at once
// than there are cores, unless -parallel says otherwise. Fuzzing waits for nothing: one
// worker for each core is enough.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" || f.Name == "test.fuzz" })
	if !given {
		flag.Set("test.parallel", "8")
	}
	rules, err := valkeynode.Permissions(valkeynode.DefaultPrefix)
	if err != nil {
		panic(err)
	}
	testserver.Restrict(rules...)
	os.Exit(m.Run())
}
