//go:build linux

package steps

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/internal/proof/trace"
)

// unit is what one server did at a time: a script with the commands that it has called, or a
// command of a client.
type unit struct {
	event
	calls  []line
	script string // its name: the first word of its text. "" if it is none
	keys   []string
	argv   []string
}

// request is one that a script has carried out.
type request struct {
	op            trace.Op
	shares        bool // it lets others share the name
	lease, stripe string
	holder        string
	number        uint64 // a confirm's, or the floor of an extend or of a forced release
	token         uint64 // that an extend tells
	known         string // what the client takes the server for, and looks at afterwards; "": the script does
}

// units puts the lines of a server together. Texts are those of scripts, by the name that EVALSHA
// has for them.
func units(events []event, texts map[string]string) (all []unit, err error) {
	for _, e := range events {
		args := e.line.args
		switch {
		case e.line.lua && len(all) == 0:
			return nil, fmt.Errorf("a script's command comes first: %q", args)
		case e.line.lua:
			last := &all[len(all)-1]
			last.calls = append(last.calls, e.line)
			continue
		case e.store != nil:
		case len(args) == 3 && args[0] == "SCRIPT" && strings.EqualFold(args[1], "load"):
			sum := sha1.Sum([]byte(args[2]))
			texts[hex.EncodeToString(sum[:])] = args[2]
		case len(args) > 2 && (args[0] == "EVAL" || args[0] == "EVALSHA"):
			text := args[1]
			if args[0] == "EVALSHA" {
				text = texts[args[1]]
			}
			n, err := strconv.Atoi(args[2])
			if err != nil || n > len(args)-3 {
				return nil, fmt.Errorf("what is %.200q?", args)
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(text, "-- "), ":")
			all = append(all, unit{event: e, script: name, keys: args[3 : 3+n], argv: args[3+n:]})
			continue
		}
		all = append(all, unit{event: e})
	}
	return all, nil
}

// changes reports whether a command may change what is followed.
func changes(l line) bool {
	switch l.args[0] {
	case "SET", "DEL", "UNLINK", "HSET", "HSETNX", "HDEL", "PEXPIRE", "FLUSHALL", "FLUSHDB":
		return true
	}
	return false
}

// requests returns what a script was asked for; known is false if it is none that the models have.
func (u *unit) requests() (all []request, known bool) {
	number := func(at int) uint64 {
		n, _ := strconv.ParseUint(u.arg(at), 10, 64)
		return n
	}
	key := func(at int) string {
		if at < len(u.keys) {
			return u.keys[at]
		}
		return ""
	}
	switch u.script {
	case "acquire", "acquireshared":
		return []request{{op: trace.Acquire, shares: u.script == "acquireshared", lease: key(0), holder: u.arg(0),
			stripe: u.arg(2), known: u.arg(4)}}, true
	case "confirm":
		return []request{{op: trace.Confirm, lease: key(0), holder: u.arg(0), stripe: u.arg(1), number: number(2),
			known: u.arg(3)}}, true
	case "extend", "extendshared":
		return []request{{op: trace.Extend, shares: u.script == "extendshared", lease: key(0), holder: u.arg(0),
			stripe: u.arg(2), number: number(3), token: number(5), known: u.arg(4)}}, true
	case "release":
		return []request{{op: trace.Release, lease: key(0), holder: u.arg(0)}}, true
	case "force":
		return []request{{op: trace.Force, lease: key(0), stripe: u.arg(0), number: number(1), known: u.arg(2)}}, true
	case "acquires":
		for i := 0; 2*i+1 < len(u.keys); i++ {
			all = append(all, request{op: trace.Acquire, lease: key(2*i + 1), holder: u.arg(4*i + 1), stripe: u.arg(4*i + 3),
				known: u.arg(0)})
		}
		return all, true
	case "extends":
		for i := 0; i+1 < len(u.keys); i++ {
			all = append(all, request{op: trace.Extend, lease: key(i + 1), holder: u.arg(5*i + 1), stripe: u.arg(5*i + 3),
				number: number(5*i + 4), token: number(5*i + 5), known: u.arg(0)})
		}
		return all, true
	case "releases":
		for i := 0; 2*i+1 < len(u.keys); i++ {
			all = append(all, request{op: trace.Release, lease: key(2*i + 1), holder: u.arg(3 * i)})
		}
		return all, true
	}
	return nil, false
}

func (u *unit) arg(at int) string {
	if at < len(u.argv) {
		return u.argv[at]
	}
	return ""
}

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

// apply carries out what a script has called. Of a SET that sets nothing where something is, what
// comes next tells what it was.
func (u *unit) apply(s *store) error {
	for i, l := range u.calls {
		if !changes(l) {
			continue
		}
		if len(l.args) < 2 {
			return fmt.Errorf("what is %q?", l.args)
		}
		if isNX(l) && !u.wasSet(i) {
			continue
		}
		l.at = u.line.at // a script has one time
		if !s.write(l) {
			return fmt.Errorf("what does %q do?", l.args)
		}
	}
	return nil
}

// wasSet reports whether the SET with NX at this place has set something: the scripts ask what is
// there, or try again, if not.
func (u *unit) wasSet(at int) bool {
	key := u.calls[at].args[1]
	for i, next := range u.calls[at+1:] {
		if i == 0 && next.args[0] == "GET" && next.args[1] == key || isNX(next) && next.args[1] == key {
			return false
		}
	}
	return true
}

// is reports whether a line is this command for this key.
func (l line) is(command, key string) bool {
	return l.args[0] == command && len(l.args) > 1 && l.args[1] == key
}

// isNX reports whether a command is a SET with NX.
func isNX(l line) bool {
	return l.args[0] == "SET" && slices.ContainsFunc(l.args[3:], func(a string) bool { return strings.EqualFold(a, "NX") })
}
