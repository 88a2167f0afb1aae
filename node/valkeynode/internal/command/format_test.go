package command

import (
	"fmt"
	"strings"
	"testing"
)

// The number is written three times, with the constant.
func TestScriptsHaveTheFormat(t *testing.T) {
	number := fmt.Sprintf("'%d'", format)
	for text, times := range map[string]int{textOf("admitted"): 1, admitText: 2} {
		if n := strings.Count(text, number); n != times {
			t.Errorf("%s is %d times, not %d, in:\n%s", number, n, times, text)
		}
	}
	for _, s := range Operations {
		if s != releaseScript && !strings.Contains(s.Text, "'format'") {
			t.Errorf("%s does not look at the format", s.Name)
		}
	}
}
