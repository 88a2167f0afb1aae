package nodetest

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// queueSuite is one rule's view of a node that keeps waiter queues. Its checks
// end one try of the rule, not the test. A name is
// reserved for a waiter for a second only, and on a slow machine that can be over before
// the rule has looked.
type queueSuite struct {
	*suite
	near, far *listener // a client of node, and one of other

	name    string // of this try
	tries   int
	numbers int           // of waiters, over all tries
	began   time.Time     // this try
	waited  time.Duration // by this try, on purpose
	current map[string]bool
}

// inTime runs a rule until it has passed, or has failed so quickly that no name
// was reserved for too short.
func (s *suite) inTime(test func(*queueSuite)) {
	q := &queueSuite{suite: s}
	wait := s.wait
	s.wait = func(d time.Duration) {
		q.waited += d
		wait(d)
	}
	s.fail = func(format string, args ...any) { q.failf(q.spent(), format, args...) }
	q.near, q.far = q.listen(s.node), q.listen(s.other)
	for {
		q.tries++
		q.name, q.current = fmt.Sprint("queue ", q.tries), map[string]bool{}
		q.began, q.waited = time.Now(), 0
		failed := q.try(test)
		if failed == nil {
			return
		}
		if failed.spent < rule.ReservationTTL/2 || q.tries == 10 || q.other.closed.Load() {
			s.Fatalf("%s (try %d, %v)", failed.message, q.tries, failed.spent)
		}
	}
}

type failure struct {
	message string
	spent   time.Duration // by the try, besides waiting
}

func (q *queueSuite) try(test func(*queueSuite)) (failed *failure) {
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if failed, ok = r.(*failure); !ok {
				panic(r)
			}
		}
	}()
	test(q)
	return nil
}

func (q *queueSuite) spent() time.Duration { return time.Since(q.began) - q.waited }

// failf ends the try. It says where in the rule that was.
func (q *queueSuite) failf(spent time.Duration, format string, args ...any) {
	helpers := []string{"queue.go", "listener.go", "suite.go"}
	pcs := make([]uintptr, 20)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	frame, more := frames.Next()
	for more && (slices.Contains(helpers, path.Base(frame.File))) {
		frame, more = frames.Next()
	}
	panic(&failure{fmt.Sprintf("%s:%d: %s", path.Base(frame.File), frame.Line, fmt.Sprintf(format, args...)), spent})
}

// unreserved waits until no name is reserved any more.
func (q *queueSuite) unreserved() { q.wait(rule.ReservationTTL + short) }

// waiter is one who waits. The zero waiter is a stranger: it has no place.
type waiter struct {
	node.Place
	via *watched
}

// waiter returns a new waiter of a client. The stamp counts from some day in
// 2023: stamps are large numbers.
func (q *queueSuite) waiter(of *listener, stamp int64) waiter {
	q.numbers++
	w := waiter{node.Place{Waiter: fmt.Sprintf("%s:%d", of.client, q.numbers), Stamp: 1_700_000_000_000_000 + stamp},
		of.node}
	q.current[w.Waiter] = true
	return w
}

func (q *queueSuite) request(w waiter) (*watched, node.Request) {
	r := request(q.name, "waiter", 0)
	r.Place = w.Place
	_, number, _ := strings.Cut(w.Waiter, ":")
	r.Shared = strings.HasPrefix(number, "0")
	if w.via == nil {
		w.via = q.other
	}
	return w.via, r
}

// holds takes the name with token 7, past any queue.
func (q *queueSuite) holds() node.Request { return q.takes(q.name, "holder", 7) }

// holdsAny is holds for a stripe that is in use.
func (q *queueSuite) holdsAny() node.Request { return q.takes(q.name, "holder", 0) }

// refused lets a waiter ask in vain, with a proposal.
func (q *queueSuite) refused(w waiter) node.Answer {
	via, r := q.request(w)
	return q.want(node.Held)(via.Acquire(q.ctx, with(r, 1000)))
}

// granted lets a waiter ask with success.
func (q *queueSuite) granted(w waiter) node.Request {
	via, r := q.request(w)
	r.Token = q.want(node.Granted)(via.Acquire(q.ctx, r)).Register
	r.Place = node.Place{}
	return r
}

// queued puts waiters into the queue, in this order.
func (q *queueSuite) queued(waiters ...waiter) {
	for _, w := range waiters {
		q.refused(w)
	}
}

// contended has the name held while a waiter of each client is in the queue, the
// second of them first.
func (q *queueSuite) contended() (holder node.Request, w1, w2 waiter) {
	holder, w1, w2 = q.holds(), q.waiter(q.near, 10), q.waiter(q.far, 20)
	q.queued(w2, w1)
	return holder, w1, w2
}

// releases ends a lease. If waiters are given, they and no others have been notified.
func (q *queueSuite) releases(r node.Request, notified ...waiter) {
	q.want(node.Granted)(q.node.Release(q.ctx, r))
	if len(notified) > 0 {
		q.heard(notified...)
	}
}

// leaves says that a wait is over.
func (q *queueSuite) leaves(w waiter) {
	q.want(node.Lost)(w.via.Release(q.ctx, node.Request{Name: q.name, Place: node.Place{Waiter: w.Waiter}}))
}

// lapses lets a lease end without a release.
func (q *queueSuite) lapses(r node.Request) {
	q.want(node.Granted)(q.node.Extend(q.ctx, lasting(r, short)))
	q.outwait()
}

// ahead checks how many a waiter finds before it.
func (q *queueSuite) ahead(w waiter, want int) {
	if a := q.refused(w); a.Ahead != want {
		q.fail("%d are ahead: %+v; want %d", a.Ahead, a, want)
	}
}

// reservation is what the node shows of a name that is reserved.
func (q *queueSuite) reservation() node.Lease {
	if q.node.admin() {
		return q.inspect(q.node, q.name)
	}
	l, err := q.node.peekTaken(q.ctx, q.name)
	if err != nil {
		q.fail("%v", err)
	}
	return l
}

// reserved checks that the name is reserved for a waiter, with this register.
func (q *queueSuite) reserved(register fence.Token) {
	l := q.reservation()
	if l.Remaining <= 0 || l.Remaining > rule.ReservationTTL || l.Register != register {
		q.fail("inspect: %+v; want a lease of at most %v, and register %d", l, rule.ReservationTTL, register)
	}
}

// free checks that the name is free, and not reserved.
func (q *queueSuite) free() {
	if !q.node.admin() {
		return // to look at it would lead to a notification
	}
	if l := q.inspect(q.node, q.name); l.Remaining != 0 {
		q.fail("inspect: %+v; want no lease", l)
	}
}
