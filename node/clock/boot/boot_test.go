package boot_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/fenlock/fenlock/node/clock/boot"
)

func TestIDStays(t *testing.T) {
	if runtime.GOOS != "linux" {
		if id, err := boot.ID(); err == nil {
			t.Errorf("%s has the boot id %q", runtime.GOOS, id)
		}
		return
	}
	first, err := boot.ID()
	if err != nil || len(first) != len("00000000-0000-0000-0000-000000000000") {
		t.Fatalf("%q, %v", first, err)
	}
	if second, err := boot.ID(); err != nil || second != first {
		t.Errorf("%q, %v, and before it was %q", second, err, first)
	}
}

func ExampleID() {
	id, err := boot.ID()
	fmt.Println(id != "" || err != nil)
	// Output: true
}
