package docs

import (
	"strconv"
	"strings"
	"unicode"
)

// anchor returns the id of a heading as GitHub makes it: lower case, a hyphen for
// each space, and without punctuation. The second of the same text gets -1.
func anchor(text string, used map[string]int) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
	n := used[id]
	used[id]++
	if n > 0 {
		return id + "-" + strconv.Itoa(n)
	}
	return id
}
