package cas

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// decision is what an operation comes to on a record.
type decision struct {
	after  Record
	answer node.Answer
	write  bool // it is worth nothing unless the record is written
}

// decide carries out a request on the record of its stripe at now. Reachable is nil where waiters
// poll.
func (l Loaded) decide(stripe int, r node.Request, now time.Duration, reachable func(waiter string) bool) (d decision,
	err error) {
	store, err := l.store(stripe)
	if err != nil {
		return d, err
	}
	store.Out = !l.Votes
	o := store.Begin(r.Name, now, reachable)
	var notify []string
	if reachable != nil {
		d.answer, notify = rule.ServeShared(&o.Entry, &queue{o}, now, r)
	} else {
		d.answer, _ = rule.ServeShared(&o.Entry, nil, now, r)
	}
	o.Commit()
	d.after = l.Record
	d.after.Register, d.after.Fresh, d.after.TouchedBy = store.Registers[stripe], nil, ""
	if d.answer.Status == node.Granted && (r.Op == node.Acquire || r.Op == node.Extend) {
		d.after.Touched, d.after.TouchedBy = r.Name, r.Holder
	}
	if d.write = d.answer.Status == node.Granted || len(notify) > 0; !d.write {
		d.after.Leases, d.after.Queues = encodeLeases(store.Leases), encodeQueues(store.Queues)
		if d.write = !d.after.same(l.Record); !d.write {
			return d, nil
		}
	}
	// What has ended goes when something is written, and is no reason to write.
	maps.DeleteFunc(store.Leases, func(_ string, l rule.Lease) bool { return l.Expires <= now })
	maps.DeleteFunc(store.Queues, func(_ string, q rule.QueueRecord) bool { return q.Expires <= now })
	d.after.Leases, d.after.Queues = encodeLeases(store.Leases), encodeQueues(store.Queues)
	if len(notify) > 0 {
		d.after.tell(notify, now)
	}
	return d, nil
}

// tell adds notices to a record.
func (r *Record) tell(notify []string, now time.Duration) {
	notices := slices.DeleteFunc(decodeNotices(r.Notices), func(n notice) bool { return n.at < now-noticeLife })
	for _, text := range notify {
		if n, is := node.ParseNotice(text); is && n.Number == 0 {
			text = unlabelled(n.Waiter)
		}
		notices = append(notices, notice{now, text})
		r.Fresh = append(r.Fresh, text)
	}
	notices = notices[max(0, len(notices)-max(mostNotices, len(notify))):]
	r.Notices, r.Told = encodeNotices(notices), now
}

// unlabelled returns a waiter without its label: that has nothing to do in a notice.
func unlabelled(waiter string) string {
	if label := node.WaiterLabel(waiter); label != "" {
		return waiter[:len(waiter)-len(label)-1]
	}
	return waiter
}

// fits returns why a record is too large, or nil.
func (r Record) fits(most int) error {
	if size := r.size(); size > most {
		return fmt.Errorf("the stripe of the name has %d bytes of leases and waiters; at most %d are kept", size, most)
	}
	return nil
}

// queue is the waiter queue of a name during an operation.
type queue struct{ *rule.Operation }

// renewal is by how much a queue may expire early, so that not each of its waiters' questions is
// written.
const renewal = time.Second

// Renew implements rule.Queue.
func (q *queue) Renew() {
	expires := q.QueueExpires
	if q.Operation.Renew(); q.QueueExpires-expires <= renewal {
		q.QueueExpires = expires
	}
}
