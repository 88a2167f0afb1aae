package fenlock_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// export exports a lock, which must work.
func export(t *testing.T, lock *fenlock.Lock) string {
	t.Helper()
	text, err := lock.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return text
}

// adopt adopts a lock, which must work.
func adopt(t *testing.T, l *fenlock.Locker, text string) *fenlock.Lock {
	t.Helper()
	lock, err := l.Adopt(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return lock
}

// The lock goes from one process to another, and no client gets in between: not even one that waits
// in the queue all the while.
func TestHandover(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.queuer(), name)
		next := make(chan *fenlock.Lock)
		waiting := c.queuer()
		go func() {
			k, err := waiting.Acquire(t.Context(), name)
			wantErr(t, err)
			next <- k
		}()
		time.Sleep(time.Second)
		text := export(t, lock)
		wantCause(t, lock.Context(), fenlock.ErrExported)
		wantNot(t, context.Cause(lock.Context()), fenlock.ErrReleased, fenlock.ErrLost, fenlock.ErrMaxHold)
		wantRemaining(t, lock, 0)
		c.wantLeases(3)

		time.Sleep(ttl - time.Second)
		adopted := adopt(t, c.queuer(), text)
		if adopted.Token() != lock.Token() || adopted.Name() != name {
			t.Errorf("adopted %v with token %d instead of %d", adopted, adopted.Token(), lock.Token())
		}
		wantRemaining(t, adopted, validity)
		time.Sleep(10 * ttl)
		wantCause(t, adopted.Context(), nil)
		wantErr(t, adopted.Extend(t.Context()))
		select {
		case k := <-next:
			t.Fatalf("somebody got in with token %d", k.Token())
		default:
		}
		wantErr(t, adopted.Release(t.Context()))
		k := <-next
		if k.Token() <= adopted.Token() {
			t.Errorf("token %d after %d", k.Token(), adopted.Token())
		}
		wantErr(t, k.Release(t.Context()))
	})
}

// From the export on the exporter sends nothing, whatever it is asked for and whatever comes late.
func TestExporterIsSilent(t *testing.T) {
	late := map[string]fault{"nothing is late": {}, "an answer is": {reply: nodeTimeout / 2},
		"a request is":      {request: nodeTimeout / 2},
		"an answer is lost": {lost: true}, "a node hangs": {hang: true}}
	for what, how := range late {
		for _, op := range []string{acquire, extend} {
			t.Run(what+", of "+op, func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, c *cluster) {
					c.nodes[2].set(op, how)
					lock := take(t, c.locker(), name)
					export(t, lock)
					sent := c.requests(allOps)
					for range 2 {
						err := lock.Release(t.Context())
						wantErr(t, err, fenlock.ErrExported)
						wantNot(t, err, fenlock.ErrReleased)
					}
					wantErr(t, lock.Extend(t.Context()), fenlock.ErrExported)
					if text, err := lock.Export(t.Context()); text != "" || !errors.Is(err, fenlock.ErrExported) {
						t.Errorf("exported twice: %v", err)
					}
					time.Sleep(5 * ttl)
					c.wantRequests(allOps, sent)
					c.wantLeases(0) // it was not adopted: it is free
					c.nodes[2].heal()
					wantErr(t, take(t, c.locker(), name).Release(t.Context()))
				})
			})
		}
	}
}

// Too few answers tell nothing: nothing is held, released or used up, and another try works.
func TestAdoptionIsTriedAgain(t *testing.T) {
	bubbles(t, 3, map[string]fault{"down": down, "hang": {hang: true}, "answers lost": {lost: true}},
		func(t *testing.T, c *cluster, how fault) {
			text := export(t, c.held())
			c.set(1, 3, extend, how)
			l := c.locker()
			k, err := l.Adopt(t.Context(), text)
			if k != nil {
				t.Fatal("adopted by one node of three")
			}
			wantErr(t, err, fenlock.ErrNoQuorum)
			wantNot(t, err, fenlock.ErrLost, fenlock.ErrInvalid, fenlock.ErrHeld)
			if !strings.Contains(err.Error(), "adopt ") || strings.Contains(err.Error(), text) {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			c.set(0, 3, extend, fault{hang: true})
			_, err = l.Adopt(ctx, text)
			wantErr(t, err, context.DeadlineExceeded)
			if _, again := l.Adopt(ctx, text); !errors.Is(again, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "adopt ") {
				t.Error(err, again)
			}
			c.wantRequests(release, 0)
			c.set(0, 3, extend, fault{})
			wantErr(t, adopt(t, l, text).Release(t.Context()))
		})
}

// What has ended does not come to life again, although no other client has had it, and leaves
// nothing.
func TestAdoptionOfWhatIsGone(t *testing.T) {
	bubbles(t, 3, map[string]func(t *testing.T, c *cluster, text string){
		"expired": func(t *testing.T, c *cluster, _ string) { time.Sleep(ttl + 1) },
		"expired, and a node does not answer": func(t *testing.T, c *cluster, _ string) {
			time.Sleep(ttl + 1)
			c.nodes[0].set(extend, fault{reply: nodeTimeout / 2})
		},
		"adopted and released": func(t *testing.T, c *cluster, text string) {
			wantErr(t, adopt(t, c.locker(), text).Release(t.Context()))
		},
		"released by force": func(t *testing.T, c *cluster, _ string) {
			for i := range c.nodes {
				c.forced(i, i+1, future)
			}
		},
		"forgotten": func(t *testing.T, c *cluster, _ string) {
			for i := range 2 {
				c.crash(i, map[int]fence.Token{})
				c.raise(i, future) // as its rebuild has it
			}
		},
		"held by somebody else": func(t *testing.T, c *cluster, _ string) {
			time.Sleep(ttl + 1)
			k := take(t, c.locker(), name)
			time.AfterFunc(nodeTimeout/2, func() {
				wantErr(t, k.Extend(t.Context()))
				wantErr(t, k.Release(t.Context()))
			})
		},
	}, func(t *testing.T, c *cluster, happens func(*testing.T, *cluster, string)) {
		text := export(t, c.held())
		happens(t, c, text)
		k, err := c.locker().Adopt(t.Context(), text)
		if k != nil {
			t.Fatal("adopted")
		}
		wantErr(t, err, fenlock.ErrLost)
		wantNot(t, err, fenlock.ErrNoQuorum, fenlock.ErrInvalid)
		time.Sleep(nodeTimeout)
		c.wantLeases(0)
	})
}

// A Locker adopts a lock that it has exported itself, but not twice while it holds that.
func TestAdoptsOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		text := export(t, take(t, l, name))
		adopted := adopt(t, l, text)
		sent := c.requests(allOps)
		_, err := l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrInvalid)
		c.wantRequests(allOps, sent)
		text = export(t, adopted)
		again := adopt(t, l, text) // the next text of the same lock
		wantErr(t, again.Release(t.Context()))
		_, err = l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrLost)
	})
}

// The terms go along: what is left of them, and not those of the adopter's Config.
func TestHandoverOfTerms(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().Acquire(t.Context(), name, fenlock.WithTTL(8*time.Second), fenlock.WithMaxHold(time.Minute),
			fenlock.WithLabel("first"))
		wantErr(t, err)
		time.Sleep(20 * time.Second)
		adopted := adopt(t, c.locker(label("second"), maxHold(time.Hour)), export(t, lock))
		if l := c.lease(0, name); l.Label != "first" || l.Token != lock.Token() || l.Remaining != 8*time.Second {
			t.Errorf("%+v", l)
		}
		time.Sleep(40*time.Second - 1)
		wantCause(t, adopted.Context(), nil)
		time.Sleep(time.Nanosecond)
		wantCause(t, adopted.Context(), fenlock.ErrMaxHold)
		wantErr(t, adopted.Release(t.Context()), fenlock.ErrMaxHold)
	})
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().Acquire(t.Context(), name, fenlock.WithMinHold(25*time.Second))
		wantErr(t, err)
		time.Sleep(5 * time.Second)
		adopted := adopt(t, c.locker(), export(t, lock))
		wantErr(t, adopted.Release(t.Context()))
		time.Sleep(20*time.Second - 1)
		c.wantLeases(3)
		time.Sleep(time.Nanosecond)
		c.wantLeases(0)
	})
}

// A lock that is shared stays so, and one that lets others share it lets them.
func TestHandoverOfSharedLocks(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		readers, err := c.queuer().AcquireShared(t.Context(), name)
		wantErr(t, err)
		other, err := c.queuer().AcquireShared(t.Context(), name)
		wantErr(t, err)
		adopted := adopt(t, c.queuer(), export(t, readers))
		wantErr(t, other.Release(t.Context()))
		time.Sleep(2 * ttl)
		other, err = c.queuer().TryAcquire(t.Context(), name, fenlock.WithShared())
		wantErr(t, err)
		_, err = c.queuer().TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		wantErr(t, other.Release(t.Context()))
		wantErr(t, adopted.Release(t.Context()))

		writer := take(t, c.queuer(), name)
		wantErr(t, writer.Downgrade(t.Context()))
		text := export(t, writer)
		_, err = c.locker().Adopt(t.Context(), text) // its nodes cannot share
		wantErr(t, err, fenlock.ErrInvalid)
		adopted = adopt(t, c.queuer(), text)
		other, err = c.queuer().TryAcquire(t.Context(), name, fenlock.WithShared())
		wantErr(t, err)
		wantErr(t, errors.Join(other.Release(t.Context()), adopted.Release(t.Context())))
	})
}

// An export that fails is none: the lock is what it was.
func TestExportThatFails(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock := take(t, l, name)
		c.set(0, 2, extend, down)
		text, err := lock.Export(t.Context())
		wantErr(t, err, fenlock.ErrNoQuorum)
		c.set(0, 2, extend, fault{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		other, failed := lock.Export(ctx)
		wantErr(t, failed, context.DeadlineExceeded)
		if text != "" || other != "" {
			t.Error("there is a text")
		}
		wantCause(t, lock.Context(), nil)
		c.set(0, 2, extend, fault{})
		time.Sleep(5 * ttl)
		wantErr(t, lock.Extend(t.Context()))
		adopt(t, c.locker(), export(t, lock))
		released := take(t, l, "another")
		wantErr(t, released.Release(t.Context()))
		_, err = released.Export(t.Context())
		wantErr(t, err, fenlock.ErrReleased)
		held := take(t, l, "another")
		wantErr(t, l.Close())
		_, err = held.Export(t.Context())
		wantErr(t, err, fenlock.ErrClosed)
	})
}

// Bad texts are refused before anything is sent, and not told to the Observer.
func TestBadExports(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		text := export(t, lock)
		head, body, _ := strings.Cut(text, ".")
		raw, err := base64.RawURLEncoding.DecodeString(body)
		wantErr(t, err)
		secret := string(raw[len(name)+1:][:32])
		forged := func(change func(fields []string)) string {
			fields := strings.Split(string(raw), "\n")
			change(fields)
			return head + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Join(fields, "\n")))
		}
		short, few := c.locker(func(c *fenlock.Config) {
			c.TTL, c.MaxTTL = 5*time.Second,
				5*time.Second
		}), c.lockerOn((*faulty).node,
			func(c *fenlock.Config) { c.Nodes = c.Nodes[:2] })
		slow := c.locker(func(c *fenlock.Config) {
			c.TTL, c.MaxTTL, c.NodeTimeout = 20*time.Second, 20*time.Second, 5*time.Second
		})
		synctest.Wait() // what is under way still counts
		sent := c.requests(allOps)
		for what, bad := range map[string]struct {
			text string
			by   *fenlock.Locker // nil: one that would adopt the text as it was
		}{
			"nothing":         {"", nil},
			"garbage":         {"garbage " + secret, nil},
			"too long":        {text + strings.Repeat("a", fenlock.MaxExportLength), nil},
			"another version": {"fenlock-export-2." + body, nil},
			"cut off":         {text[:len(text)-1], nil},
			"only its head":   {head, nil},
			"two of them":     {text + text, nil},
			"other letters":   {strings.ToUpper(text), nil},
			"another name":    {forged(func(f []string) { f[0] = "orders/43" }), nil},
			"another token":   {forged(func(f []string) { f[2] = "1" }), nil},
			"no hash":         {forged(func(f []string) { f[9] = "" }), nil},
			"other nodes":     {text, few},
			"too long a TTL":  {text, short},
			"too slow nodes":  {text, slow},
		} {
			if bad.by == nil {
				bad.by = c.locker()
			}
			k, err := bad.by.Adopt(t.Context(), bad.text)
			if k != nil || !errors.Is(err, fenlock.ErrInvalid) || strings.Contains(err.Error(), secret) ||
				body != "" && strings.Contains(err.Error(), body) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for i := range text { // every letter matters
			changed := text[:i] + map[bool]string{true: "b", false: "a"}[text[i] == 'a'] + text[i+1:]
			if _, err := c.locker().Adopt(t.Context(), changed); !errors.Is(err, fenlock.ErrInvalid) {
				t.Fatalf("letter %d: %v", i, err)
			}
		}
		c.wantRequests(allOps, sent)
		if len(text) > fenlock.MaxExportLength || strings.ContainsAny(text, " \n") || strings.Contains(text, secret) {
			t.Errorf("the text has %d bytes: %q", len(text), text)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if s := fmt.Sprintf(verb, lock); strings.Contains(s, secret) {
				t.Error(s)
			}
		}
		wantErr(t, adopt(t, c.locker(), "  "+text+"\n").Release(t.Context()))
		closed := c.locker()
		wantErr(t, closed.Close())
		synctest.Wait()
		sent = c.requests(allOps)
		_, err = closed.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrClosed)
		c.wantRequests(allOps, sent)
	})
}

// The longest of all is within the bound.
func TestLongestExport(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		long := strings.Repeat("n", fenlock.MaxNameLength)
		lock, err := c.locker().Acquire(t.Context(), long, fenlock.WithLabel(strings.Repeat("l", fenlock.MaxLabelLength)),
			fenlock.WithMaxHold(1<<62))
		wantErr(t, err)
		text := export(t, lock)
		if len(text) > fenlock.MaxExportLength-100 {
			t.Errorf("%d bytes", len(text))
		}
		wantErr(t, adopt(t, c.locker(), text).Release(t.Context()))
	})
}

// Of several locks each is exported by itself, as each is released by itself.
func TestExportOfOneOfSeveral(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		wantErr(t, err)
		text := export(t, all.Lock("a"))
		wantCause(t, all.Context(), fenlock.ErrExported)
		wantCause(t, all.Lock("b").Context(), nil)
		a := adopt(t, c.locker(), text)
		wantErr(t, all.Release(t.Context()), fenlock.ErrExported)
		wantCause(t, a.Context(), nil)
		_, err = l.TryAcquire(t.Context(), "a")
		wantErr(t, err, fenlock.ErrHeld)
		wantErr(t, take(t, l, "b").Release(t.Context()))
		wantErr(t, a.Release(t.Context()))
	})
}

// Groups adopt a lock where its name is, and none that is about to move.
func TestHandoverBetweenGroups(t *testing.T) {
	severally(t, "a b c", func(t *testing.T, s several) {
		from, to := s.process(t, "a b", ""), s.process(t, "a b", "")
		changing, after := s.process(t, "a b c", "a b"), s.process(t, "a b c", "")
		moved := 0
		for i := range 12 {
			k, err := from.Acquire(t.Context(), fmt.Sprint("name", i))
			wantErr(t, err)
			text := export(t, k)
			if _, old := changing.Of(k.Name()); old.ID != "" {
				moved++
				_, err := changing.Adopt(t.Context(), text)
				wantErr(t, err, fenlock.ErrInvalid)
			}
			k, err = to.Adopt(t.Context(), text)
			wantErr(t, err)
			wantErr(t, k.Release(t.Context()))
			k, err = changing.Acquire(t.Context(), k.Name())
			wantErr(t, err)
			if _, old := changing.Of(k.Name()); old.ID != "" {
				_, err := k.Export(t.Context())
				wantErr(t, err, fenlock.ErrInvalid)
			}
			wantErr(t, k.Release(t.Context()))

			// A process that knows the new list only is on the group that the name goes to; a
			// process that knows both must not be.
			k, err = after.Acquire(t.Context(), k.Name())
			wantErr(t, err)
			text = export(t, k)
			k, err = changing.Adopt(t.Context(), text)
			if _, old := changing.Of(fmt.Sprint("name", i)); old.ID != "" {
				wantErr(t, err, fenlock.ErrInvalid)
				k, err = after.Adopt(t.Context(), text)
			}
			wantErr(t, err)
			wantErr(t, k.Release(t.Context()))
		}
		if moved == 0 || moved == 12 {
			t.Errorf("%d names move", moved)
		}
	})
}

// An Observer hears of an adoption as of an acquisition, and of an export as of a release, so that
// what counts locks counts right.
func TestHandoverIsTold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var heard []string
		observed := func(c *fenlock.Config) {
			c.Observer = fenlock.Observer{
				Acquire: func(_ context.Context, e fenlock.AcquireEvent) { heard = append(heard, "acquire "+reason(e.Err)) },
				Release: func(_ context.Context, e fenlock.ReleaseEvent) {
					heard = append(heard, fmt.Sprintf("release %s after %v, %v left", reason(e.Err), e.Held, e.Left))
				},
				Lost: func(_ context.Context, e fenlock.LostEvent) { heard = append(heard, "lost") },
			}
		}
		lock := take(t, c.locker(observed), name)
		time.Sleep(time.Second)
		text := export(t, lock)
		wantErr(t, lock.Release(t.Context()), fenlock.ErrExported)
		adopted := adopt(t, c.locker(observed), text)
		wantErr(t, adopted.Release(t.Context()))
		_, err := c.locker(observed).Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrLost)
		want := fmt.Sprintf(
			"[acquire ok release ok after 1s, %v left acquire ok release ok after 0s, %v left acquire the lock was lost]",
			validity, validity)
		if got := fmt.Sprint(heard); got != want {
			t.Errorf("heard %s\nwant  %s", got, want)
		}
	})
}
