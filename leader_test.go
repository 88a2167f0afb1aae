package fenlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
	"github.com/fenlock/fenlock/node"
)

// One leads at a time, for as long as it likes, each with a larger term; a leader that resigns has
// ended before the next begins.
func TestLead(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var leading atomic.Int32
		var last atomic.Uint64
		var all sync.WaitGroup
		for range 3 {
			l := c.queuer()
			all.Go(func() {
				err := leader.Lead(t.Context(), l, name, func(ctx context.Context, term fence.Token) error {
					if leading.Add(1) != 1 {
						t.Error("two lead")
					}
					if uint64(term) <= last.Swap(uint64(term)) {
						t.Errorf("the term %d is not larger than the last", term)
					}
					_, err := l.TryAcquire(ctx, name)
					wantErr(t, err, fenlock.ErrNested)
					time.Sleep(3 * time.Hour) // more than the maximum hold
					wantCause(t, ctx, nil)
					leading.Add(-1)
					return errWork
				}, fenlock.WithMaxHold(time.Minute))
				if err != errWork {
					t.Errorf("got %v, want work's own error", err)
				}
			})
		}
		all.Wait()
		c.wantLeases(0)
	})
}

// A candidate that lost the lead stops, and re-enters the election, with a larger term.
func TestLeadAfterALoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		var terms []fence.Token
		err := leader.Lead(t.Context(), l, name, func(ctx context.Context, term fence.Token) error {
			terms = append(terms, term)
			if len(terms) == 3 {
				return nil
			}
			c.set(0, 3, extend, down)
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), fenlock.ErrLost)
			c.set(0, 3, extend, fault{})
			return errWork // not Lead's: it does not lead any more
		})
		wantErr(t, err)
		if len(terms) != 3 || terms[0] >= terms[1] || terms[1] >= terms[2] {
			t.Errorf("the terms are %d", terms)
		}
		c.wantLeases(0)
	})
}

// The end of the context is the end of work, which is waited for while the lock is held.
func TestLeadResigns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		err := leader.Lead(ctx, c.locker(), name, func(ctx context.Context, _ fence.Token) error {
			<-ctx.Done()
			time.Sleep(time.Hour)
			c.wantLeases(3)
			return ctx.Err()
		})
		c.wantNow(time.Minute + time.Hour)
		wantErr(t, err, context.Canceled)
		c.wantLeases(0)
		wantErr(t, leader.Lead(ctx, c.locker(), name, nil), context.Canceled)
		lock := take(t, c.locker(), name)
		wantErr(t, leader.Lead(t.Context(), c.locker(), name, nil, fenlock.WithWait(time.Second)), context.DeadlineExceeded,
			fenlock.ErrHeld)
		wantErr(t, lock.Release(t.Context()))
		wantErr(t, leader.Lead(t.Context(), c.locker(), "", nil), fenlock.ErrInvalid)
	})
}

// A leader that goes on after its context has ended is reported. A leader that stops is not.
func TestLeadReportsWhoOverstays(t *testing.T) {
	for _, stays := range []time.Duration{time.Millisecond, time.Minute} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			change, log := logged()
			ctx, stop := context.WithCancel(t.Context())
			c.set(0, 3, extend, down)
			err := leader.Lead(ctx, c.locker(change), name, func(ctx context.Context, _ fence.Token) error {
				<-ctx.Done()
				time.Sleep(stays)
				stop()
				return nil
			})
			wantErr(t, err, context.Canceled)
			synctest.Wait()
			overstays := stays > time.Second
			for _, text := range []string{"although it does not lead", "does not go on any more"} {
				if strings.Contains(log(), text) != overstays {
					t.Errorf("it stays for %v: %q is told: %v\n%s", stays, text, !overstays, log())
				}
			}
		})
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// news is what a follower hears, and when.
type news struct {
	leader leader.Leader
	err    error
	at     time.Duration
}

// follow sends what a follower hears, until stop is called.
func (c *cluster) follow(looks *atomic.Int64) (heard <-chan news, stop func()) {
	c.t.Helper()
	admin := c.adminOf(func(i int) node.Node { return shown{faulty: c.nodes[i], looks: looks} })
	ctx, cancel := context.WithCancel(c.t.Context())
	to, done := make(chan news, 100), make(chan struct{})
	go func() {
		defer close(done)
		for l, err := range leader.Follow(ctx, admin, name) {
			to <- news{l, err, c.now()}
		}
	}()
	return to, func() {
		cancel()
		<-done
	}
}

// A follower hears of each leader, and of none, within a second, in the order of their terms. It
// also hears of a majority that does not answer.
func TestFollow(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var looks atomic.Int64
		heard, stop := c.follow(&looks)
		defer stop()
		next := func(since time.Duration) news {
			t.Helper()
			select {
			case n := <-heard:
				if n.at > since+time.Second {
					t.Errorf("heard of it %v late", n.at-since)
				}
				return n
			case <-time.After(time.Hour):
				t.Fatal("nothing is heard")
			}
			panic("unreachable")
		}
		if n := next(c.now()); n.leader != (leader.Leader{}) || n.err != nil {
			t.Errorf("before anybody leads: %+v", n)
		}
		var last, raised fence.Token
		c.set(0, 3, allOps, fault{request: 50 * time.Millisecond}) // it can be seen how a term is agreed upon
		for range 20 {
			for _, who := range []string{"ann", "bob"} {
				// Registers that differ: the nodes are told the term by an extension.
				raised += 1000
				c.raise(0, future+raised)
				c.raise(1, future+raised+500)
				began := c.now()
				lead, resign := context.WithCancel(t.Context())
				gone := make(chan error)
				var term atomic.Uint64
				go func() {
					gone <- leader.Lead(lead, c.locker(), name, func(ctx context.Context, token fence.Token) error {
						term.Store(uint64(token))
						<-ctx.Done()
						return nil
					}, fenlock.WithLabel(who))
				}()
				n := next(began)
				if n.leader.Label != who || uint64(n.leader.Term) != term.Load() || n.leader.Term <= last || n.err != nil {
					t.Errorf("%+v; want %s in the term %d", n, who, term.Load())
				}
				last = n.leader.Term
				time.Sleep(time.Minute)
				if len(heard) > 0 {
					t.Errorf("%+v; nothing has changed", <-heard)
				}
				resign()
				wantErr(t, <-gone)
				if n := next(c.now()); n.leader != (leader.Leader{}) || n.err != nil {
					t.Errorf("after it has resigned: %+v", n)
				}
			}
		}
		if most := int64(3*2*c.now().Seconds()) + 100; looks.Load() > most {
			t.Errorf("%d looks in %v, want %d at most", looks.Load(), c.now(), most)
		}

		c.set(0, 3, allOps, fault{})
		lock := take(t, c.locker(label("cat")), name)
		if n := next(c.now()); n.leader.Label != "cat" || n.err != nil {
			t.Errorf("%+v; want cat", n)
		}
		c.set(0, 2, "look", down)
		if n := next(c.now()); !errors.Is(n.err, fenlock.ErrNoQuorum) || n.leader.Label != "cat" {
			t.Errorf("while a majority does not answer: %+v", n)
		}
		time.Sleep(time.Minute)
		c.set(0, 2, "look", fault{})
		if n := next(c.now()); n.err != nil || n.leader.Label != "cat" {
			t.Errorf("when it answers again: %+v", n)
		}
		wantErr(t, lock.Release(t.Context()))
		next(c.now())
		for _, err := range leader.Follow(t.Context(), c.admin(), "") {
			wantErr(t, err, fenlock.ErrInvalid)
		}
	})
}

// A node that hangs does not keep a follower from hearing in time what the others say. Nor does it
// where it has to be waited for, because those that answer do not agree.
func TestFollowBesideANodeThatHangs(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var looks atomic.Int64
		heard, stop := c.follow(&looks)
		defer stop()
		<-heard
		c.set(2, 3, "look", fault{hang: true})
		for i := range 100 {
			time.Sleep(10*time.Second + time.Duration(i)*7*time.Millisecond)
			lock, began := take(t, c.locker(label("ann")), name), c.now()
			if n := <-heard; n.leader.Label != "ann" || n.err != nil || c.now() > began+time.Second {
				t.Errorf("%+v leads, as is heard after %v", n, c.now()-began)
			}
			time.Sleep(10*time.Second + time.Duration(i)*11*time.Millisecond)
			wantErr(t, lock.Release(t.Context()))
			began = c.now()
			if n := <-heard; n.leader != (leader.Leader{}) || n.err != nil || c.now() > began+time.Second {
				t.Errorf("%+v leads, as is heard %v after the end of ann", n, c.now()-began)
			}
		}
		if most := int64(3*2*c.now().Seconds()) + 100; looks.Load() > most {
			t.Errorf("%d looks in %v, want %d at most", looks.Load(), c.now(), most)
		}

		c.set(2, 3, "look", fault{request: 300 * time.Millisecond})
		c.set(1, 2, allOps, down)
		c.set(1, 2, "look", fault{}) // which knows of no lease
		lock := take(t, c.locker(label("bob")), name)
		if n := <-heard; n.leader.Label != "bob" || n.err != nil {
			t.Errorf("%+v leads, want bob", n)
		}
		wantErr(t, lock.Release(t.Context()))
	})
}

// attempt takes leases on the first nodes with registers that differ, as a client does that
// ends before it has agreed on a number.
func (c *cluster) attempt(nodes int, d time.Duration) {
	c.t.Helper()
	for i := range nodes {
		c.raise(i, future+fence.Token(nodes-i)*1000)
	}
	c.leased(0, nodes, "unfinished", d)
}

// A candidate that has a majority of leases and no term does not lead, and neither does the
// previous leader. Followers hear that in time, and do not ask for it all the time.
func TestFollowWithoutATerm(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var looks atomic.Int64
		heard, stop := c.follow(&looks)
		defer stop()
		<-heard
		lock := take(t, c.locker(label("ann")), name)
		if n := <-heard; n.leader.Label != "ann" || n.err != nil {
			t.Errorf("%+v leads", n)
		}
		wantErr(t, lock.Release(t.Context()))
		synctest.Wait()
		c.attempt(3, time.Hour)
		began := c.now()
		if n := <-heard; n.leader != (leader.Leader{}) || n.err != nil || c.now() > began+time.Second {
			t.Errorf("%+v leads, as is heard after %v", n, c.now()-began)
		}
		before := looks.Load()
		time.Sleep(time.Minute)
		if got := looks.Load() - before; got > 3*2*60+3*20 {
			t.Errorf("%d looks in a minute", got)
		}
		if len(heard) > 0 {
			t.Errorf("%+v leads", <-heard)
		}
	})
}

// A number that one node has confirmed, of an attempt that failed, is no term: a smaller one
// can follow.
func TestFollowAfterAnUnfinishedTerm(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var looks atomic.Int64
		heard, stop := c.follow(&looks)
		defer stop()
		<-heard
		c.raise(0, future)
		ask := func(i int, op node.Op, token fence.Token) {
			t.Helper()
			r := node.Request{Op: op, Name: name, Holder: holder("unfinished"), TTL: ttl, Token: token}
			if a, err := c.nodes[i].Node.Do(context.Background(), r); err != nil || a.Status != node.Granted {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		ask(0, node.Acquire, 1)
		ask(1, node.Acquire, 1)
		ask(0, node.Confirm, future+1)
		time.Sleep(5 * time.Second)
		ask(0, node.Release, 0)
		ask(1, node.Release, 0)
		time.Sleep(time.Second)
		if len(heard) > 0 {
			t.Errorf("%+v has led", <-heard)
		}
		c.set(0, 1, allOps, down)
		c.set(0, 1, "look", down)
		lock := take(t, c.locker(label("ann")), name)
		select {
		case n := <-heard:
			if n.leader.Label != "ann" || n.leader.Term != lock.Token() || n.err != nil {
				t.Errorf("%+v leads, want ann in the term %d", n, lock.Token())
			}
		case <-time.After(time.Hour):
			t.Error("nothing is heard of ann")
		}
		wantErr(t, lock.Release(t.Context()))
	})
}

// logged returns a Config change, and what was logged.
func logged() (change func(*fenlock.Config), all func() string) {
	var log bytes.Buffer
	var mu sync.Mutex
	return func(config *fenlock.Config) {
			config.Logger = slog.New(slog.NewTextHandler(writer(func(p []byte) {
				mu.Lock()
				defer mu.Unlock()
				log.Write(p)
			}), nil))
		}, func() string {
			mu.Lock()
			defer mu.Unlock()
			return log.String()
		}
}

// Work that goes on after ctx has ended leads on. If the lock is lost then, it goes on although
// another may lead.
func TestLeadOverstaysALossAfterItsContext(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		change, log := logged()
		ctx, stop := context.WithCancel(t.Context())
		err := leader.Lead(ctx, c.locker(change), name, func(ctx context.Context, _ fence.Token) error {
			stop() // the process is told to end, and work takes its time
			time.Sleep(time.Second)
			c.set(0, 3, extend, down)
			time.Sleep(10 * time.Minute) // the lock is lost meanwhile
			return errWork
		})
		wantErr(t, err, context.Canceled)
		synctest.Wait()
		for _, text := range []string{"although it does not lead", "does not go on any more", "what led has ended"} {
			if !strings.Contains(log(), text) {
				t.Errorf("%q is not told:\n%s", text, log())
			}
		}
	})
}

// Lead runs within an outer lock, which is lost. The inner one is not: work leads until it returns.
func TestLeadWithinALockThatIsLost(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		change, log := logged()
		l := c.locker(change)
		err := l.Do(t.Context(), "outer", func(ctx context.Context, _ fence.Token) error {
			return leader.Lead(ctx, l, name, func(ctx context.Context, _ fence.Token) error {
				_, err := c.admin().ForceRelease(t.Context(), "outer")
				wantErr(t, err)
				<-ctx.Done()
				time.Sleep(time.Minute)
				c.wantLeases(3) // it leads still
				return nil
			})
		})
		wantErr(t, err, fenlock.ErrLost)
		synctest.Wait()
		if strings.Contains(log(), "although it does not lead") {
			t.Errorf("it leads, and is told that it does not:\n%s", log())
		}
	})
}
