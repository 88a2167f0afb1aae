package etcdnode

import (
	"context"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// held is a lease that this process has written, as it was then.
type held struct {
	record record
	mod    int64    // the revision of its key
	value  string   // of the key
	first  []queued // those that waited for the name then
	more   bool
	timer  *time.Timer
	until  time.Duration // when that ends it, on node/clock
}

// heldLeases are those of a process. It removes the key of each when its TTL is over:
// etcd leases are longer, and shared. By the value, so that nothing is removed but what was
// meant, also in a cluster that was made anew and counts its revisions anew.
type heldLeases struct {
	cluster *cluster

	mu        sync.Mutex
	byName    map[string]*held
	removing  int                      // keys, in the background
	seen      map[int64]time.Duration  // when a reservation with this revision was seen first
	contended map[string]time.Duration // when a name was released for which a client waited
}

// bounds of what is remembered for the sake of speed only.
const (
	mostRemembered = 4096
	contendedFor   = time.Minute
)

// of returns the lease of a holder.
func (l *heldLeases) of(name string, holder node.Holder) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.byName[name]; h != nil && h.record.holder == holder {
		copied := *h
		return &copied
	}
	return nil
}

// keep remembers a lease that was written. With anew its end was set: it is over after
// its TTL, counted from now, which is later than etcd has carried it out.
func (l *heldLeases) keep(name string, h *held, anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.byName[name]
	if old != nil && old.mod > h.mod {
		return // answers may come in another order
	}
	if old != nil && !anew {
		h.timer, h.until, h.first, h.more = old.timer, old.until, old.first, old.more
	} else if old != nil {
		old.timer.Stop()
	}
	l.byName[name] = h
	if h.timer == nil {
		until := clock.Now() + h.record.ttl
		h.until, h.timer = until, time.AfterFunc(h.record.ttl, func() { l.over(name, until) })
	}
}

// over ends a lease that was not extended in time. One that was, while its timer went off,
// has another end.
func (l *heldLeases) over(name string, until time.Duration) {
	l.mu.Lock()
	h := l.byName[name]
	if h == nil || h.until != until {
		l.mu.Unlock()
		return
	}
	delete(l.byName, name)
	l.mu.Unlock()
	key := l.cluster.keys.lease(name)
	l.remove(key, clientv3.Compare(clientv3.Value(key), "=", h.value))
}

// drop forgets a lease that is gone.
func (l *heldLeases) drop(name string, holder node.Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.byName[name]; h != nil && (holder == "" || h.record.holder == holder) {
		h.timer.Stop()
		delete(l.byName, name)
	}
}

// doubt ends a lease that may have been written, or may be still, or a reservation.
func (l *heldLeases) doubt(name, value string, ttl time.Duration) {
	key := l.cluster.keys.lease(name)
	time.AfterFunc(ttl, func() { l.remove(key, clientv3.Compare(clientv3.Value(key), "=", value)) })
}

// removeTimeout bounds one try to remove a key, and removePause is between two. What is
// beyond mostRemoved at a time is left to etcd: while no majority answers, each attempt to
// acquire leaves one behind.
const (
	removeTimeout = 2 * time.Second
	removePause   = 500 * time.Millisecond
	mostRemoved   = 1024
)

// remove deletes a key if it is as it was, however long that takes. Should the node be closed or
// the process end before, etcd does it.
func (l *heldLeases) remove(key string, as clientv3.Cmp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removing >= mostRemoved {
		return
	}
	err := l.cluster.life.Spawn(func() {
		defer l.removed()
		for l.cluster.life.Err() == nil {
			ctx, cancel := context.WithTimeout(l.cluster.life, removeTimeout)
			_, err := l.cluster.commit(ctx, txn{If: []clientv3.Cmp{as}, Then: []clientv3.Op{clientv3.OpDelete(key)}})
			cancel()
			if err == nil {
				return
			}
			engine.Pause(l.cluster.life, removePause)
		}
	})
	if err == nil {
		l.removing++
	}
}

func (l *heldLeases) removed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removing--
}

// seenFor returns how long ago this process saw a reservation first, by its revision.
func (l *heldLeases) seenFor(mod int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Now()
	if at, ok := l.seen[mod]; ok {
		return now - at
	}
	if l.seen == nil || len(l.seen) >= mostRemembered {
		l.seen = map[int64]time.Duration{}
	}
	l.seen[mod] = now
	return 0
}

// contend remembers that a client waited when a name was released.
func (l *heldLeases) contend(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.contended) >= mostRemembered {
		clear(l.contended)
	}
	l.contended[name] = clock.Now()
}

func (l *heldLeases) isContended(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.contended[name]
	return ok && clock.Now() < at+contendedFor
}

// placeKey is a waiter, without its label, and what it waits for.
type placeKey struct{ name, waiter string }

// ownPlace is where a waiter of this process is in a queue.
type ownPlace struct {
	node.Place
	timer *time.Timer
}

// told is the notification of a waiter.
type told struct {
	revision int64         // of the lease that reserves the name
	at       time.Duration // on node/clock
}

// places are those of the waiters of a process. A waiter that has not asked for
// rule.QueueExpiry is taken out: its wait is over, and the word of it was lost.
type places struct {
	held *heldLeases

	mu   sync.Mutex
	all  map[placeKey]*ownPlace
	told map[string]told // waiters that were notified
}

// known returns where a waiter is, or will be if it comes now. A waiter that comes again
// keeps the place that it has.
func (p *places) known(name string, place node.Place) node.Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.all[placeKey{name, place.Waiter}]; own != nil && place.Waiter != "" {
		return own.Place
	}
	return place
}

// keep remembers a place, and that its waiter has asked.
func (p *places) keep(name string, place node.Place) {
	if place.Waiter == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := placeKey{name, place.Waiter}
	if own := p.all[key]; own != nil {
		own.Place = place
		own.timer.Reset(rule.QueueExpiry)
		return
	}
	p.all[key] = &ownPlace{place, time.AfterFunc(rule.QueueExpiry, func() {
		waiter := p.held.cluster.keys.waiter(name, p.known(name, place))
		p.drop(name, place)
		p.held.remove(waiter, clientv3.Compare(clientv3.CreateRevision(waiter), ">", 0))
	})}
}

// drop forgets a place that is left.
func (p *places) drop(name string, place node.Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.all[placeKey{name, place.Waiter}]; own != nil {
		own.timer.Stop()
		delete(p.all, placeKey{name, place.Waiter})
	}
}

// tell remembers that a waiter was notified, in the transaction with this revision.
func (p *places) tell(waiter string, revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.told) >= mostRemembered {
		clear(p.told)
	}
	p.told[waiter] = told{revision, clock.Now()}
}

// wasTold returns that revision, once, as long as the name can be reserved: it is that of the
// lease which reserves it.
func (p *places) wasTold(waiter string) int64 {
	if waiter == "" {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.told[waiter]
	delete(p.told, waiter)
	if clock.Now()-t.at > rule.ReservationTTL {
		return 0
	}
	return t.revision
}
