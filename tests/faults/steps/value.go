//go:build linux

package steps

import (
	"slices"
	"strconv"
	"strings"
)

// shared is what the value of a lease begins with that several have together. An epoch follows,
// and a line for each of them, as in the scripts.
const shared = "shared:"

// lease is that of one holder.
type lease struct {
	holder string
	origin uint64
	ends   float64 // of one of several, ms on the server's clock; 0: one has the name alone
}

// split takes the value of a lease apart. What reserves the name for a waiter is no lease.
func split(value string) (epoch uint64, all []lease) {
	text, lines, several := strings.Cut(value, "\n")
	if several = several && strings.HasPrefix(value, shared); !several {
		end := max(strings.LastIndexByte(value, ' '), 0) // a holder's label may have spaces
		digits, _, _ := strings.Cut(strings.TrimPrefix(value[end:], " "), "/")
		origin, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || strings.HasPrefix(value, "next:") {
			return 0, nil
		}
		return 0, []lease{{holder: value[:end], origin: origin}}
	}
	epoch, _ = strconv.ParseUint(strings.TrimPrefix(text, shared), 10, 64)
	for _, line := range strings.Split(lines, "\n") {
		words := strings.SplitN(line, " ", 4)
		if len(words) < 4 || strings.HasPrefix(words[3], "next:") {
			continue
		}
		ends, _ := strconv.ParseFloat(words[0], 64)
		origin, _ := strconv.ParseUint(words[1], 10, 64)
		all = append(all, lease{words[3], origin, ends})
	}
	return epoch, all
}

// slots is of how many slots a holder has one, 0 of none.
func slots(holder string) uint64 {
	_, rest, _ := strings.Cut(holder, "@")
	before, _, _ := strings.Cut(rest, ":")
	_, digits, _ := strings.Cut(before, "/")
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}

// holds reports whether a value has this lease, of the same origin.
func holds(value string, l lease) bool {
	_, all := split(value)
	return slices.ContainsFunc(all, func(x lease) bool { return x.holder == l.holder && x.origin == l.origin })
}
