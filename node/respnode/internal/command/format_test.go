package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The number is written in scripts, and where tests make a server look admitted.
func TestScriptsHaveTheFormat(t *testing.T) {
	if testserver.Format != fmt.Sprint(format) {
		t.Errorf("the servers of tests have the format %s", testserver.Format)
	}
	number := fmt.Sprintf("'%d'", format)
	for text, times := range map[string]int{textOf("admitted"): 1, textOf("admit"): 2} {
		if n := strings.Count(text, number); n != times {
			t.Errorf("%s is %d times, not %d, in:\n%s", number, n, times, text)
		}
	}
	for _, s := range Operations {
		if !strings.Contains(s.Text(), "'format'") {
			t.Errorf("%s does not look at the format", s.Name)
		}
	}
}
