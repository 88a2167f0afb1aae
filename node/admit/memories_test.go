package admit_test

import (
	"slices"
	"testing"

	"github.com/fenlock/fenlock/node/admit"
)

// Stores separate the names of memories by spaces, and most engines have spaces in their names.
func TestMemoriesAsText(t *testing.T) {
	for _, memories := range [][]string{nil, {"a"}, {"a", "b.1"}, {"a server, since 1, after ", "b"},
		{"two  spaces", " "}, {"%20", "%", "% 25", "a%2520b"}} {
		text := admit.TextOfMemories(memories)
		if got := admit.MemoriesOf(text); !slices.Equal(got, memories) {
			t.Errorf("%q became %q, by %q", memories, got, text)
		}
	}
	if got := admit.MemoriesOf("one two/2="); !slices.Equal(got, []string{"one", "two/2="}) {
		t.Errorf("the names of before are %q", got)
	}
}
