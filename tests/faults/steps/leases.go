//go:build linux

package steps

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/internal/proof/trace"
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

// only is the value without those that share the name and do not fit.
func (e entry) only(fits func(l lease) bool) entry {
	if !strings.HasPrefix(e.value, shared) {
		return e
	}
	var kept []string
	for i, line := range strings.Split(e.value, "\n") {
		_, all := split(shared + "0\n" + line)
		if i == 0 || len(all) == 0 || fits(all[0]) {
			kept = append(kept, line)
		}
	}
	e.value = strings.Join(kept, "\n")
	return e
}

// until is the lease without those that ended by a moment of the server's clock.
func (e entry) until(at float64) entry { return e.only(func(l lease) bool { return at < l.ends }) }

// roughly is how far the time of a line may be from that of the script, which is a little earlier.
// It is more where the server had no processor.
const roughly = 50 // ms

// there decides whether a lease was still there when a script looked at it. It was, if its time was
// not over by then. If it was over, or if that is not known, since the server's clock has been
// moved, what the script did tells. The time of a lease may end earlier in the model than on any
// clock: that is a free move of it. Of several holders that share it, left decides.
func (u *unit) there(key string, e entry, movedClock bool) bool {
	several := strings.HasPrefix(e.value, shared)
	if u.line.at < e.ends-roughly && !movedClock || several {
		for i, l := range u.calls {
			if isNX(l) && l.args[1] == key && u.wasSet(i) {
				return false // something else has ended it
			}
		}
		return true
	}
	_, had := split(e.value)
	for i, l := range u.calls {
		if len(l.args) < 2 || l.args[1] != key {
			continue
		}
		switch {
		case l.args[0] == "PEXPIRE" || l.args[0] == "DEL":
			return true
		case isNX(l):
			return !u.wasSet(i)
		case l.args[0] == "SET":
			return l.args[len(l.args)-1] == "KEEPTTL" ||
				len(had) == 1 && holds(l.args[2], had[0]) && u.script != "acquire" && u.script != "acquires"
		}
	}
	return u.line.at < e.ends
}

// left is what a script found of a lease that several have together: as there, for each of them. A
// script that writes the lease writes all that it found. If it did not, nothing rests on which of
// them were there. A lease whose time was over may be created again with the same origin, if the
// register is still that. Then the epoch is gone, which no floor has ended.
func (u *unit) left(q *request, e entry, movedClock bool) entry {
	written := ""
	for _, l := range u.calls {
		if l.is("SET", q.lease) && !isNX(l) {
			written = l.args[2]
		}
	}
	had, _ := split(e.value)
	has, _ := split(written)
	ended := q.op == trace.Extend && had != 0 && has == 0 && q.number <= had
	return e.only(func(l lease) bool {
		return written == "" || u.line.at < l.ends-roughly && !movedClock || !ended && holds(written, l)
	})
}
