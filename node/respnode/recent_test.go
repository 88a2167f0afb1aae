package respnode

import (
	"fmt"
	"testing"
)

// Names that came twice are told, and a server that never ends takes no more memory.
func TestRecentNames(t *testing.T) {
	var r recent
	for i := range 2*mostRecent + 10 {
		name := fmt.Sprint(i)
		if !r.first(name) || r.first(name) {
			t.Fatalf("%s", name)
		}
	}
	if len(r) > mostRecent {
		t.Errorf("%d names are remembered", len(r))
	}
}
