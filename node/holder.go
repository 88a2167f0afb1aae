package node

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
)

// Holder is the identity of one acquisition attempt: 128 random bits in hex,
// a colon, and a label for people. Whoever knows it can release the lease, so
// it is not for display; Label is.
type Holder string

// IDLength is the number of hexadecimal digits of a Holder before the colon, and of
// the client in a Place.Waiter.
const IDLength = 32

// Label returns the readable part, NextInQueue if h reserves the name for a waiter,
// or "" if it was not made by fenlock (a lease of another Redlock client).
func (h Holder) Label() string {
	if h.Reserves() {
		return NextInQueue
	}
	if len(h) <= IDLength || h[IDLength] != ':' {
		return ""
	}
	if strings.Trim(string(h[:IDLength]), "0123456789abcdef") != "" {
		return ""
	}
	return string(h[IDLength+1:])
}

// Format keeps the identity out of logs and errors, whatever the verb.
func (h Holder) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "holder(%s)", h.Label()) }

// LogValue does the same for handlers that do not use package fmt.
func (h Holder) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(h)) }

// reservation begins the holder of a lease that reserves a free name for a waiter
// that was notified. To everybody else it is a lease like any other.
const reservation = "next:"

// Reserved returns the holder of a lease that reserves a name for a waiter.
func Reserved(waiter string) Holder { return Holder(reservation + waiter) }

// Reserves reports whether the lease of h reserves the name for a waiter.
func (h Holder) Reserves() bool { return strings.HasPrefix(string(h), reservation) }

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

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }
