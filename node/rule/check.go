package rule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Check returns why a request must not be carried out, or nil. The error matches
// node.ErrInvalid. It looks at what the operation uses, and at nothing else. It refuses to share a
// name: see CheckShared.
func Check(r node.Request) error {
	if isReader(r.Place.Waiter) || r.Shared {
		return fmt.Errorf("%w: names are not shared on a node of this kind; nothing was done", node.ErrInvalid)
	}
	return CheckShared(r)
}

// CheckShared is Check for a node.Sharer.
func CheckShared(r node.Request) (err error) {
	switch r.Op {
	case node.Acquire:
		err = errors.Join(checkTTL(r.TTL), checkProposal(r.Token), checkHolder(r), CheckPlace(r.Place), checkKind(r))
	case node.Confirm, node.ForceRelease:
		err = checkToken(r.Token)
	case node.Extend:
		err = errors.Join(checkTTL(r.TTL), checkToken(r.Token), checkToken(r.OwnToken), checkHolder(r))
	case node.Release:
		err = errors.Join(checkProposal(r.Next), CheckPlace(r.Place))
	default:
		err = errors.New("there is no such operation; nothing was done")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", node.ErrInvalid, err)
	}
	return nil
}

// maxTTL keeps now + ttl far from the end of time.Duration, where the sum would
// be negative: a lease reported as granted that has expired already.
const maxTTL = 100 * 365 * 24 * time.Hour

// checkTTL refuses a TTL that rounds down to no millisecond. A store that is told to expire a key
// after 0 ms deletes it and reports success. Nodes count whole milliseconds, rounded down, so that
// no lease outlives what its holder asked for.
func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond || ttl > maxTTL {
		return fmt.Errorf("a TTL of %v is not between 1ms and 100 years; nothing was done", ttl)
	}
	return nil
}

// checkProposal refuses a proposal above MaxProposal. Accepting it could
// use up the tokens of the whole stripe in one request, for good.
func checkProposal(proposal fence.Token) error {
	if proposal > MaxProposal {
		return fmt.Errorf("the proposal %d is above the bound of %d; nothing was done", uint64(proposal), uint64(MaxProposal))
	}
	return nil
}

// checkToken refuses a number that a register must never have. No larger token could be told from
// it in a Lua double or a JSON number.
func checkToken(token fence.Token) error {
	if token > fence.MaxToken {
		return fmt.Errorf("the token %d is above the bound of %d; nothing was done", uint64(token), uint64(fence.MaxToken))
	}
	return nil
}

// checkHolder refuses the empty holder, which stands for no holder: its lease would be granted to
// the next client that asks. It refuses one that reads as several, and one that several cannot be
// written with.
func checkHolder(r node.Request) error {
	switch {
	case r.Holder == "":
		return errors.New("the holder is empty; nothing was done")
	case r.Holder.Shared():
		return errors.New("the holder stands for several; nothing was done")
	case r.Shared && strings.Contains(string(r.Holder), "\n"):
		return errors.New("the holder has more than one line, and cannot share a name; nothing was done")
	}
	return nil
}

// checkKind refuses a waiter of the other kind: who wants to share a name must be seen by that in
// the queue.
func checkKind(r node.Request) error {
	if r.Place.Waiter != "" && isReader(r.Place.Waiter) != r.Shared {
		return fmt.Errorf(
			"the number of the waiter %.60q must begin with 0 if, and only if, the name is to be shared; nothing was done",
			r.Place.Waiter)
	}
	return nil
}

// maxStamp is what a double and a JSON number count to without a gap.
const maxStamp = 1 << 53

// CheckPlace refuses what is no waiter, and a stamp that some engine could not keep exactly. Nodes
// that rounded differently would disagree about which waiter is next. A waiter is 32 hexadecimal
// digits in lower case, a colon and 1 to 19 digits. Some engines make the name of a channel of it.
// A colon and a label may follow. The empty waiter is fine.
func CheckPlace(p node.Place) error {
	if p.Stamp < 0 || p.Stamp > maxStamp {
		return fmt.Errorf("the stamp %d is not between 0 and 2^53; nothing was done", p.Stamp)
	}
	if p.Waiter == "" {
		return nil
	}
	client, rest, _ := strings.Cut(p.Waiter, ":")
	number, label, _ := strings.Cut(rest, ":")
	if !isClient(client) ||
		len(number) < 1 || len(number) > 19 || strings.Trim(number, "0123456789") != "" {
		return fmt.Errorf("the waiter %.60q is not 32 hexadecimal digits, a colon and a number; nothing was done", p.Waiter)
	}
	if len(label) > node.MaxWaiterLabel || !utf8.ValidString(label) || strings.ContainsFunc(label, unicode.IsControl) {
		return fmt.Errorf(
			"the waiter's label %.60q is not at most %d bytes of UTF-8 without control characters; nothing was done", label,
			node.MaxWaiterLabel)
	}
	return nil
}

// CheckClient refuses what could have no waiters: a client is 32 hexadecimal digits in
// lower case. The error matches node.ErrInvalid.
func CheckClient(client string) error {
	if !isClient(client) {
		return fmt.Errorf("%w: the client %.60q is not %d hexadecimal digits; nothing was done", node.ErrInvalid, client,
			node.IDLength)
	}
	return nil
}

func isClient(s string) bool {
	return len(s) == node.IDLength && strings.Trim(s, "0123456789abcdef") == ""
}
