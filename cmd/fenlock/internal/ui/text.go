package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// visible is a text that others chose, as it can be shown in a line. Characters without a
// picture, or that change the direction of what follows, are written as escapes. A client that
// may write to the nodes must not make one lock look like another lock.
func visible(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 && strings.Trim(text, " ") == text &&
		!strings.Contains(text, "  ") {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == ' ' && (i == 0 || i == len(text)-1 || text[i-1] == ' '):
			b.WriteString(`\u0020`) // a browser shows several as one
		case plain(r):
			b.WriteRune(r)
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// plain reports whether a character has a picture.
func plain(r rune) bool {
	return unicode.IsPrint(r) && r != utf8.RuneError && r != '\u2800' &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// short is a visible text of bounded length: a name that another program made can be of
// any.
func short(text string, most int) string {
	if len(text) <= most {
		return visible(text)
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return visible(text[:end]) + "…"
}

// passed is a time that has passed, in two units at most. live.js has the same.
func passed(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 60*60:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	case s < 48*60*60:
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %02d h", s/86400, s/3600%24)
}

// left is a time that is left, to a tenth of a second. live.js has the same.
func left(d time.Duration) string {
	switch tenths := max(d, 0) / (100 * time.Millisecond); {
	case tenths < 600:
		return fmt.Sprintf("%d.%d s", tenths/10, tenths%10)
	default:
		return passed(d)
	}
}

// roundTrip is the time of a round trip, in two digits or three.
func roundTrip(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case d <= 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.1f ms", max(ms, 0.1))
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// exact is a moment to the second, with its zone.
func exact(t time.Time) string { return t.Format("2006-01-02 15:04:05 -07:00") }

// digest stands for a text, in few characters.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// plural is a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// thousands is a number with its groups of digits set apart.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// ordinal is a place in a queue.
func ordinal(n int) string {
	end := "th"
	switch {
	case n%100/10 == 1:
	case n%10 == 1:
		end = "st"
	case n%10 == 2:
		end = "nd"
	case n%10 == 3:
		end = "rd"
	}
	return fmt.Sprint(n) + end
}

// maxReason is how much is shown of what a node says, in bytes.
const maxReason = 400

// reason is an error in a line, without the name of the node that it is shown beside.
func reason(node string, err error) string {
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "fenlock: "), ": fenlock: ", ": ")
	text = strings.TrimPrefix(text, node+": ")
	return short(text, maxReason)
}

// shortAddress is the length of an address that is never broken into lines, in bytes.
const shortAddress = 24

// addressParts are the parts of an address, between which a line may end: one, if it is short.
func addressParts(node string) []string {
	text := address(node)
	if len(text) <= shortAddress {
		return []string{text}
	}
	var parts []string
	for text != "" {
		i := strings.IndexAny(text, ".:/-")
		if i < 0 {
			i = len(text) - 1
		}
		parts, text = append(parts, text[:i+1]), text[i+1:]
	}
	return parts
}

// address is the name of a node without the scheme, which all nodes of a group share.
func address(node string) string {
	if _, rest, found := strings.Cut(node, "://"); found && rest != "" {
		node = rest
	}
	return visible(node)
}
