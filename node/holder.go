package node

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Holder is the identity of one acquisition attempt: 128 random bits in hex, when it began, and a
// label for people, as NewHolder makes it. To know it is enough to release the lease, so it is not
// for display; Label and Since are.
type Holder string

// NewHolder returns the holder with these random digits. They are followed by an at sign, the start
// of the attempt, a colon and the label. The start is on the client's wall clock, in milliseconds
// since 1970. No promise rests on it: it is for people. For the holder of a slot, a slash and the
// number of slots come before the colon; slots is 0 for all others.
func NewHolder(id [IDLength]byte, since time.Time, slots int, label string) Holder {
	var space [256]byte
	b := append(space[:0], id[:]...)
	b = strconv.AppendInt(append(b, '@'), max(since.UnixMilli(), 0), 10)
	if slots > 0 {
		b = strconv.AppendInt(append(b, '/'), int64(slots), 10)
	}
	return Holder(append(append(b, ':'), label...))
}

// IDLength is the number of hexadecimal digits that a Holder begins with, and the
// client in a Place.Waiter.
const IDLength = 32

// Label returns the readable part, NextInQueue if h reserves the name for a waiter, or "" if
// another Redlock client made it.
func (h Holder) Label() string {
	if h.Reserves() {
		return NextInQueue
	}
	if h.Shared() {
		return h.labels()
	}
	return h.parts().label
}

// Slots returns of how many slots the holder has one, 0 of none: those who share a name agree
// on it. Of several it is the first one's.
func (h Holder) Slots() int {
	if h.Shared() {
		for _, reader := range h.readers() {
			if !reader.Reserves() {
				return reader.Slots()
			}
		}
		return 0
	}
	n, _ := strconv.Atoi(h.parts().slots)
	return n
}

// labels is the label of several: of one who shares the name, and how many others do. What
// ends in the middle, after a line break, was not read whole: there may be more.
func (h Holder) labels() string {
	first, count, atLeast := "", 0, ""
	if strings.HasSuffix(string(h), "\n") {
		atLeast = "at least "
	}
	for _, reader := range h.readers() {
		if !reader.Reserves() {
			if count++; count == 1 {
				first = reader.Label()
			}
		}
	}
	switch count {
	case 0:
		return NextInQueue
	case 1:
		return first
	}
	return first + " and " + atLeast + strconv.Itoa(count-1) + " more that share it"
}

// readers returns those for whom h stands, if it is Shared.
func (h Holder) readers() (all []Holder) {
	lines := strings.Split(string(h), "\n")
	for _, line := range lines[1:] {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			all = append(all, Holder(fields[3]))
		}
	}
	return all
}

// Since returns when the attempt began, by the wall clock of the client that made it, to
// the millisecond; the zero Time if that is not part of h.
func (h Holder) Since() time.Time {
	if ms, err := strconv.ParseInt(h.parts().since, 10, 64); err == nil && ms > 0 && ms < maxMillis {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// maxMillis is the year 10000, which no text form of a time reaches.
const maxMillis = 253402300800000

// holderParts are what NewHolder puts together. What is missing is empty.
type holderParts struct{ since, slots, label string }

// parts splits a holder, into nothing if NewHolder has not made it. The time may be missing: then a
// colon follows the digits.
func (h Holder) parts() (p holderParts) {
	if len(h) <= IDLength || strings.Trim(string(h[:IDLength]), "0123456789abcdef") != "" {
		return holderParts{}
	}
	rest := string(h[IDLength:])
	switch rest[0] {
	case ':':
		return holderParts{label: rest[1:]}
	case '@':
		var ok bool
		if p.since, p.label, ok = strings.Cut(rest[1:], ":"); !ok {
			return holderParts{}
		}
		p.since, p.slots, ok = strings.Cut(p.since, "/")
		if p.since == "" || ok && (p.slots == "" || p.slots[0] == '0' || len(p.slots) > 5) ||
			strings.Trim(p.since+p.slots, "0123456789") != "" {
			return holderParts{}
		}
		return p
	case '#':
		given, label, ok := strings.Cut(rest[1:], ":")
		wait, number, both := strings.Cut(given, "#")
		micros, err := strconv.ParseUint(number, 10, 63)
		if !ok || !both || wait == "" || err != nil || strings.Trim(wait, "0123456789") != "" {
			return holderParts{}
		}
		// What is proposed is mostly the wall clock, see core.Proposal.
		return holderParts{since: itoa(micros / 1000), label: label}
	}
	return holderParts{}
}

// Fingerprint tells the leases of one holder from those of others, on all nodes: a hash of the
// identity, which cannot be found from it. 0 is of no holder. All that share a name have one
// together.
func (h Holder) Fingerprint() uint64 {
	if h == "" {
		return 0
	}
	if h.Shared() {
		h = SharedPrefix
	}
	sum := sha256.Sum256([]byte(h))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// Format keeps the identity out of logs and errors, whatever the verb.
func (h Holder) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "holder(%s)", h.Label()) }

// LogValue does the same for handlers that do not use package fmt.
func (h Holder) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(h)) }

// reservation begins the holder of a lease that reserves a free name for a waiter that was
// notified. To all others it is a lease like any other.
const reservation = "next:"

// Reserved returns the holder of a lease that reserves a name for a waiter.
func Reserved(waiter string) Holder { return Holder(reservation + waiter) }

// Given returns the holder of a lease that a node has given to a waiter at the previous holder's
// release (Queuer). It is made of the waiter's client, its number there, and the number that was
// promised with the lease. So no two of them are the same holder. Without a waiter's label it has
// none; nothing is given by the number 0.
func Given(waiter string, number fence.Token) Holder {
	return Holder(givenTo(waiter) + itoa(uint64(number)) + ":" + WaiterLabel(waiter))
}

// GivenTo reports whether the lease of h was given to a waiter.
func (h Holder) GivenTo(waiter string) bool {
	return waiter != "" && strings.HasPrefix(string(h), givenTo(waiter))
}

// givenTo begins what is given to a waiter.
func givenTo(waiter string) string {
	client, rest, _ := strings.Cut(waiter, ":")
	wait, _, _ := strings.Cut(rest, ":")
	return client + "#" + wait + "#"
}

// Reserves reports whether the lease of h reserves the name for a waiter.
func (h Holder) Reserves() bool { return strings.HasPrefix(string(h), reservation) }

// SharedPrefix begins the holder of a lease that several share, as package rule writes it. To all
// others it is a lease like any other. A line for each follows: numbers of the node's, with spaces
// between, and the holder.
const SharedPrefix = "shared:"

// Shared reports whether h stands for those who share a name.
func (h Holder) Shared() bool { return strings.HasPrefix(string(h), SharedPrefix) }

// NextInQueue is the label of a lease that reserves a name for a waiter that was
// notified: in Answer.HeldBy and Lease.Label.
const NextInQueue = "the next in the queue"

// Stripes is the number of registers of a node. Names share registers, so that
// a node's state stays bounded however many names are ever locked. It is part
// of the format on the nodes: all clients of a group agree on it.
const Stripes = 4096

// Stripe returns the number of the register that serves name: FNV-1a (64 bit)
// of its bytes, modulo Stripes.
func Stripe(name string) int {
	h := fnv.New64a()
	h.Write([]byte(name))
	return int(h.Sum64() % Stripes)
}
