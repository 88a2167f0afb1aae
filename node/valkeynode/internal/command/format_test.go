package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
)

func TestFormat(t *testing.T) {
	for text, says := range map[string]string{
		"": "", "1": "", "2": "format 2, and this program knows formats up to 1", "17": "format 17",
		"0": "no fenlock wrote", "-1": "no fenlock wrote", "01": "no fenlock wrote", "soon": "no fenlock wrote", "99999999999999999999": "no fenlock wrote",
	} {
		err := checkFormat(text)
		if says == "" && err != nil || says != "" && (!errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

// The number is written three times.
func TestScriptsHaveTheFormat(t *testing.T) {
	number := fmt.Sprintf("'%d'", format)
	for text, times := range map[string]int{textOf("admitted"): 2, admitText: 3} {
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
