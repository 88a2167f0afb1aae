package node

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Queuer is an engine that keeps the waiters for a name in a queue, and notifies the one whose turn
// it is. The order is that of their stamps (equal ones: of the waiters' bytes). Where an engine
// does not, its waiters poll. Queues decide which waiter tries next, never which client holds: they
// are lost with the node's memory, and may be.
//
// To notify a waiter is to take it out of the queue, to tell it, and to reserve the name for it for
// one second. A lease that refuses all others reserves it. A waiter that cannot be told, because
// its process has ended, is dropped and the next one is notified.
//
// What queues add to the operations, all in the same atomic step (package rule has
// it as code):
//   - Acquire of a name that is reserved for r.Place.Waiter is granted, also if others have come
//     before it since.
//   - Acquire that is refused with Held puts the waiter into the queue, unless it
//     is in already or is empty.
//   - Acquire of a name that is free goes by the queue, after the asker was put into it. If the
//     asker is first, it is granted and leaves the queue. Otherwise the first one is notified, and
//     the asker is refused.
//   - Release that removed the lease, and ForceRelease, notify the first one.
//     With r.Place the Release speaks for that waiter too: it gives up what is
//     reserved for it, and notifies the next; and it puts it into the queue again (its
//     attempt has failed), or takes it out if the stamp is 0 (its wait is over).
//     A waiter that is put into the queue again and is the first itself is not
//     notified. Without a lease of r.Holder, which may be empty then, the answer is Lost.
//
// A node may give the name to the first in the queue instead, by a Release with Next that removed a
// lease. It sets R to the larger of R + 1 and Next. It leases the name for one second to the holder
// Given of the waiter and R. That is an Acquire that the node carries out for the waiter, which is
// told the number and what the node's clock shows: the Notice. A node that is not admitted never
// gives the name, and a waiter to share the name is not given it. A Release with the waiter's place
// and the stamp 0 takes back whatever was given to it. If its Holder is Given with the number 0,
// the waiter only leaves the queue.
//
// Where waiters want to share a name (Request.Shared), the first of them is notified together with
// those right after it that want that too. An Acquire of a name that others share is granted unless
// another waiter is in the queue, or is before the asker; if that is a waiter for the name alone
// which cannot be told, it is dropped.
//
// A place that is malformed is an error that matches ErrInvalid, and changes
// nothing. A queue has at most 10,000 waiters, and is forgotten when no waiter
// has come or asked again for 15 s.
type Queuer interface {
	// Listen makes the waiters of a client reachable on this node, until Close:
	// those whose identity is client, a colon and a number. It returns nil once
	// they are, or why they are not by the time that ctx is done; in both cases
	// it goes on in the background, through broken connections too.
	//
	// It calls notify with each waiter that is notified, with or without its label. If something is
	// given to the waiter, it calls notify with the text of a Notice. It calls notify with "" when
	// that may have been missed: when the waiters have become reachable again, or late. Notify
	// returns at once. A Locker calls Listen once; Lockers that share the node are different
	// clients.
	Listen(ctx context.Context, client string, notify func(waiter string)) error
}

// Place is a waiter's place in the queue of a name.
type Place struct {
	// Waiter is the identity of one wait, the same on all nodes and for all of its attempts. It is
	// the client's, IDLength lower-case hexadecimal digits, then a colon and a number of 1 to 19
	// digits. The number begins with 0 if, and only if, the wait is to share the name. A colon and
	// a label for people may follow, at most MaxWaiterLabel bytes of UTF-8 without control
	// characters. Empty is no waiter, and never in a queue.
	Waiter string
	// Stamp is when the wait began, in microseconds of the nodes' time. It is the same on all
	// nodes, so that they agree about which waiter is next. At most 2^53. In a Release, 0 means
	// that the wait is over.
	Stamp int64
}

// Notice is what a waiter is told by a node.
type Notice struct {
	Waiter string // as in Place; without its label if something is given to it
	// Number is what was promised with the lease that is given to it; 0: the name is reserved for
	// it only.
	Number fence.Token
	// Clock is what the node's clock showed then, as in Answer.
	Clock time.Duration
}

// String returns the notice as Listen tells it: the waiter, and, if something is given, the number
// and the clock in microseconds, with spaces between.
func (n Notice) String() string {
	if n.Number == 0 {
		return n.Waiter
	}
	client, rest, _ := strings.Cut(n.Waiter, ":")
	wait, _, _ := strings.Cut(rest, ":")
	return client + ":" + wait + " " + itoa(uint64(n.Number)) + " " + strconv.FormatInt(n.Clock.Microseconds(), 10)
}

// ParseNotice reads what Listen tells. What is no notice is false.
func ParseNotice(text string) (n Notice, ok bool) {
	client, rest, ok := strings.Cut(text, ":")
	wait, _, labelled := strings.Cut(rest, ":")
	if !ok || labelled && !strings.Contains(wait, " ") {
		return Notice{Waiter: text}, ok
	}
	wait, given, isGiven := strings.Cut(rest, " ")
	if !isGiven {
		return Notice{Waiter: text}, true
	}
	number, clock, _ := strings.Cut(given, " ")
	micros, err := strconv.ParseInt(clock, 10, 64)
	if err != nil || micros < 0 || micros > maxMicros {
		return Notice{}, false
	}
	token, err := fence.Parse(number)
	return Notice{client + ":" + wait, token, time.Duration(micros) * time.Microsecond}, err == nil && token <= MaxRegister
}

// maxMicros is the longest time.Duration.
const maxMicros = (1<<63 - 1) / int64(time.Microsecond)

// MaxWaiterLabel is how long the label of a waiter may be, in bytes.
const MaxWaiterLabel = 128

// WaiterLabel returns the label of a waiter, "" if it has none.
func WaiterLabel(waiter string) string {
	_, rest, _ := strings.Cut(waiter, ":")
	_, label, _ := strings.Cut(rest, ":")
	return label
}
