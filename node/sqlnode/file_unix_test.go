//go:build unix

package sqlnode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// SQLite keeps log and locks beside the name by which a file was opened: with two names
// there are two of each.
func TestSecondName(t *testing.T) {
	n, path := newNode(t)
	r := request("a", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	other := filepath.Join(t.TempDir(), "other.db")
	for _, beside := range []string{"", "-shm"} {
		if err := os.Link(path+beside, other+beside); err != nil {
			t.Fatal(err)
		}
		_, acquire := n.Do(t.Context(), as(node.Acquire, request("b", "me", 0)))
		_, extend := n.Do(t.Context(), as(node.Extend, r)) // may still be told that it goes on
		errs := map[string]error{path: errors.Join(acquire, extend)}
		if beside == "" {
			_, errs[other] = OpenFile(other)
		}
		for path, err := range errs {
			problem(t, err, path, "2 names (hard links)")
			if !errors.Is(err, node.ErrMisconfigured) {
				t.Errorf("not misconfigured: %v", err)
			}
		}
		if err := os.Remove(other + beside); err != nil {
			t.Fatal(err)
		}
		want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	}
}
