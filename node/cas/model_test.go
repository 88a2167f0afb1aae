package cas

import "testing"

// The clock of a stripe, searched exhaustively: two clients and one name, everything that each may
// do at each moment, in any order. A client looks, decides on what it has seen, however late, and
// writes if nothing has changed. Time is a small number, and a write takes 1. Whatever happens, no
// two clients believe at once that they have the name. Each rule that the argument needs is left
// out once, and the search finds two holders then.
//
// The znode of a session is gone when it begins, as after a backup was put back, and its client
// does not know. A write may be lost before it is carried out. Close ends a session if its client
// has nothing that is its own: see Clock.replace. What else Close looks at is not modelled.

const (
	mClients = 2
	mLong    = 5 // a lease
	mShort   = 3 // a shorter one, and what was given
	mEnd     = 8
	mNone    = -1
	mGone    = -2
)

// mRule is a rule that is left out.
type mRule int

const (
	mAll     mRule = iota
	mCompare       // a write compares the version
	mFresh         // a new version is not as old as the one before it
	mRefusal       // a refusal is written
	mHeard         // what was given counts from the refusal
	mClosed        // a session is not ended that has given
	mSameEnd       // a lease is known by when it was written
	mSight         // a lease is watched from when it was seen
	mSession       // the session outlives the lease
	mChecked       // a write checks that the znode of its session is there
	mKept          // what was there before a lost write is its client's own still
)

type mRecord struct {
	version, at   int8
	holder, owner int8
	attempt       int8 // whose lease it is: a holder is one attempt's
	written       int8 // the version in which it was written
	ends          int8
	waits         int8
}

type mClient struct {
	version, since int8 // seen
	attempt, ends  int8 // the lease that is watched
	written        int8
	watched, left  int8
	loaded         bool
	snap           mRecord
	at             int8 // when it was loaded
	until          int8 // it believes
	waits          bool
	asked, clock   int8
	told           int8 // what is on its way: the clock of a notice
	session        int8 // the end of that in which it has written the lease, at least
	znode          bool // of its session
	announced      bool // it believes that the znode is there
	own            int8 // the version in which it wrote the lease, or may have; 0: the lease is not its own
}

type mState struct {
	now int8
	mRecord
	c [mClients]mClient
}

// mSearch returns a state with two holders, if there is one without a rule.
func mSearch(out mRule) (states int, found *mState) {
	first := mState{}
	first.holder, first.owner, first.waits = mNone, mNone, mNone
	for i := range first.c {
		first.c[i].version, first.c[i].told, first.c[i].announced, first.c[i].znode = mNone, mNone, true, i > 0
	}
	seen, queue := map[mState]bool{first: true}, []mState{first}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		believe := 0
		for _, c := range s.c {
			if c.until > s.now {
				believe++
			}
		}
		if believe > 1 {
			return len(seen), &s
		}
		if s.now >= mEnd {
			continue
		}
		s.next(out, func(n mState) {
			n.settle(out)
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		})
	}
	return len(seen), nil
}

// settle forgets what can matter no more.
func (s *mState) settle(out mRule) {
	if s.holder == mNone || s.owner == mGone {
		s.ends = 0
	}
	for i := range s.c {
		c := &s.c[i]
		if c.until <= s.now {
			c.until = 0
		}
		if c.snap.version != s.version && out != mCompare {
			c.loaded, c.snap, c.at = false, mRecord{}, 0
		}
		if c.version != s.version && out != mFresh && out != mCompare {
			c.version, c.since = mNone, 0
		}
		if !c.waits {
			c.asked, c.clock = 0, 0
		}
		if s.owner != int8(i) {
			c.session, c.own = 0, 0
		} else if c.own > s.written && out != mKept {
			c.own = s.written // what counts is that it is not less
		}
	}
}

func (s mState) next(out mRule, yield func(mState)) {
	n := s
	n.now++
	yield(n)
	for i := range s.c {
		s.load(out, int8(i), yield)
		s.hear(out, int8(i), yield)
		s.expire(out, int8(i), yield)
		s.write(out, int8(i), yield)
	}
}

// load has a client look.
func (s mState) load(out mRule, i int8, yield func(mState)) {
	c := &s.c[i]
	c.see(out, s.mRecord, s.now)
	c.loaded, c.snap, c.at = true, s.mRecord, s.now
	yield(s)
}

func (c *mClient) see(out mRule, r mRecord, now int8) {
	if c.version != r.version {
		if out != mFresh || c.version == mNone {
			c.since = now
		}
		c.version = r.version
		if out == mKept && c.own != r.written || c.own < r.written {
			c.own = 0
		} else {
			c.own = r.written
		}
	}
	if c.attempt != r.attempt || c.ends != r.ends || c.written != r.written && out != mSameEnd {
		c.written = r.written
		c.attempt, c.ends, c.watched, c.left = r.attempt, r.ends, now, r.ends-r.at-(now-c.since)
		if out == mSight {
			c.left = 1
		}
	}
}

// hear has a notice arrive.
func (s mState) hear(out mRule, i int8, yield func(mState)) {
	c := &s.c[i]
	if c.told == mNone {
		return
	}
	if c.waits && c.told >= c.clock {
		c.until = max(c.until, c.asked+min(c.told-c.clock, s.now-c.asked)+mShort)
		if out == mHeard {
			c.until = s.now + mShort
		}
	}
	c.told, c.waits = mNone, false
	yield(s)
}

// expire ends the session in which a client has written the lease: not before the lease has ended,
// counted from when that was decided.
func (s mState) expire(out mRule, i int8, yield func(mState)) {
	late := s.now >= s.c[i].session
	closed := s.c[i].own == 0 || out == mClosed && s.c[i].until <= s.now
	if s.owner != i || !late && !closed {
		return
	}
	s.owner, s.c[i].znode, s.c[i].announced = mGone, false, false
	for j := range s.c {
		if s.c[j].snap.owner == i {
			s.c[j].snap.owner = mGone
		}
	}
	yield(s)
}

// gone reports whether a session has no znode.
func (s *mState) gone(owner int8) bool { return owner == mGone || owner >= 0 && !s.c[owner].znode }

// write has a client decide on what it has loaded, in each way that the rules allow.
func (s mState) write(out mRule, i int8, yield func(mState)) {
	c := &s.c[i]
	if !c.loaded {
		return
	}
	snap, asked := c.snap, c.at
	clock := snap.at + (asked - c.since) + 1
	if c.version != snap.version {
		clock = snap.at + 1
	}
	c.loaded, c.snap, c.at = false, mRecord{}, 0
	free := snap.holder == mNone || snap.ends <= clock || s.gone(snap.owner) ||
		c.attempt == snap.attempt && c.ends == snap.ends && (c.written == snap.written || out == mSameEnd) &&
			asked-c.watched >= c.left
	save := func(r mRecord, then func(n *mState, c *mClient)) {
		if s.version != snap.version && out != mCompare {
			return
		}
		n := s
		if c := &n.c[i]; c.announced && !c.znode && out != mChecked {
			c.announced = false
			yield(n)
			return
		} else if !c.announced {
			c.znode, c.announced = true, true
		}
		r.version, r.at = s.version+1, clock
		changed := r.written == r.version
		if changed && r.holder == s.holder {
			lost := n
			lost.c[i].own = r.version
			yield(lost)
		}
		n.mRecord = r
		n.now++
		if changed {
			n.c[i].own, n.c[i].session = r.version, asked+1
			if out != mSession {
				n.c[i].session += r.ends - clock
			}
		}
		then(&n, &n.c[i])
		n.c[i].see(out, r, n.now)
		yield(n)
	}
	for _, ttl := range []int8{mLong, mShort} {
		r := snap
		r.holder, r.owner, r.ends = i, i, clock+ttl
		r.written = snap.version + 1
		if snap.holder != i || free {
			r.attempt = snap.version + 1
		}
		if free || snap.holder == i {
			save(r, func(_ *mState, c *mClient) { c.until, c.waits = max(c.until, asked+ttl), false })
		}
	}
	if free {
		return
	}
	if snap.holder == i { // it releases, and gives
		r, to := snap, snap.waits
		r.holder, r.owner, r.ends, r.waits = mNone, mNone, 0, mNone
		if to != mNone {
			r.holder, r.owner, r.ends, r.attempt = to, i, clock+mShort, snap.version+1
			r.written = snap.version + 1
		}
		s.c[i].until = 0
		save(r, func(n *mState, c *mClient) {
			c.until = 0
			if to != mNone {
				n.c[to].told = clock
			}
		})
		return
	}
	r := snap
	r.waits = i
	refused := func(_ *mState, c *mClient) { c.waits, c.asked, c.clock = true, asked, clock }
	if out == mRefusal && c.version == snap.version {
		n := s
		n.now++
		refused(&n, &n.c[i])
		n.c[i].asked = s.now // as if it had looked just now
		if n.waits == mNone && n.holder != i {
			n.waits = i
		}
		yield(n)
	}
	save(r, refused)
}

func TestClockSearched(t *testing.T) {
	states, found := mSearch(mAll)
	t.Logf("%d states", states)
	if found != nil {
		t.Errorf("two holders: %+v", *found)
	}
	for out := mCompare; out <= mKept; out++ {
		if states, found := mSearch(out); found == nil {
			t.Errorf("without rule %d the search finds nothing in %d states", out, states)
		}
	}
}
