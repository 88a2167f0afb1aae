package fenlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// slots returns the slots of the name, for a process of its own.
func (c *cluster) slots(t *testing.T, n int) *fenlock.Slots {
	t.Helper()
	s, err := c.queuer().Slots(name, n)
	wantErr(t, err)
	return s
}

// Eight processes want three slots: there are never more, all of them are used, and the first to
// come is first. A node that counted holders would admit too many:
// TestCountingHoldersAdmitsTooMany.
func TestSlotsAreExact(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		bubble(t, n, func(t *testing.T, c *cluster) {
			for _, f := range c.nodes { // so that not all nodes see them come in the same order
				f.event = func() { time.Sleep(rand.N(20 * time.Millisecond)) }
			}
			var mu sync.Mutex
			var held [3]int
			var tokens [3]fence.Token
			holders, most, cycles := 0, 0, 0
			done := make(chan error)
			for range 8 {
				s := c.slots(t, 3)
				go func() {
					for range 20 {
						slot, err := s.Acquire(t.Context())
						if err != nil {
							done <- err
							return
						}
						i := slot.Number()
						mu.Lock()
						held[i]++
						if holders++; holders > most {
							most = holders
						}
						if held[i] > 1 || holders > 3 {
							t.Errorf("%d have slot %d, %d have any", held[i], i, holders)
						}
						if slot.Token() <= tokens[i] {
							t.Errorf("slot %d: token %d after %d", i, slot.Token(), tokens[i])
						}
						tokens[i] = slot.Token()
						mu.Unlock()
						time.Sleep(rand.N(time.Second))
						mu.Lock()
						held[i]--
						holders--
						cycles++
						mu.Unlock()
						wantErr(t, slot.Release(t.Context()))
						time.Sleep(rand.N(time.Second))
					}
					done <- nil
				}()
			}
			for range 8 {
				wantErr(t, <-done)
			}
			if most != 3 || cycles != 160 {
				t.Errorf("at most %d had a slot at a time, %d times; want 3, 160", most, cycles)
			}
		})
	}
}

// All slots are one queue: the longest waiter gets the first slot that becomes free.
func TestSlotsGoByOneLine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		var first []*fenlock.Slot
		for range 3 {
			slot, err := c.slots(t, 3).TryAcquire(t.Context())
			wantErr(t, err)
			first = append(first, slot)
		}
		got := make(chan int, 6)
		for i := range 6 {
			s := c.slots(t, 3)
			go func() {
				slot, err := s.Acquire(t.Context())
				wantErr(t, err)
				got <- i
				time.Sleep(time.Minute)
				slot.Release(t.Context())
			}()
			time.Sleep(100 * time.Millisecond)
		}
		if len(got) > 0 {
			t.Fatal("one of more than three has a slot")
		}
		var order []int
		for _, slot := range []*fenlock.Slot{first[2], first[0], first[1]} {
			wantErr(t, slot.Release(t.Context()))
			time.Sleep(10 * time.Second)
		}
		for range 6 {
			order = append(order, <-got)
		}
		if !slices.IsSorted(order) {
			t.Errorf("they came in the order %v", order)
		}
		time.Sleep(2 * time.Minute) // all have gone
	})
}

// A waiter keeps its place in the queue while another client has the name alone.
func TestSlotsKeepTheirPlaces(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		first, err := c.slots(t, 1).Acquire(t.Context())
		wantErr(t, err)
		got := make(chan int, 20)
		begin := func(i int) {
			s := c.slots(t, 1)
			go func() {
				slot, err := s.Acquire(t.Context())
				wantErr(t, err)
				got <- i
				time.Sleep(time.Second)
				slot.Release(t.Context())
			}()
			time.Sleep(100 * time.Millisecond)
		}
		for i := range 10 {
			begin(i)
		}
		alone := make(chan *fenlock.Lock)
		l := c.queuer()
		go func() {
			k, err := l.Acquire(t.Context(), name)
			wantErr(t, err)
			alone <- k
		}()
		time.Sleep(time.Second)
		wantErr(t, first.Release(t.Context()))
		k := <-alone
		time.Sleep(5 * time.Second)
		for i := range 10 {
			begin(10 + i)
		}
		wantErr(t, k.Release(t.Context()))
		// They come at the same moment, and one of them finds the slot free. Of the others, the
		// first is the first.
		<-got
		last := -1
		for range 19 {
			i := <-got
			if i < last {
				t.Errorf("%d came after %d", i, last)
			}
			last = i
		}
		time.Sleep(time.Minute)
	})
}

// In the normal case a slot is one round trip, with no more requests than two locks are.
func TestSlotWithoutScan(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		s := c.slots(t, 50)
		number := -1
		for i := range 10 {
			before := len(c.nodes[0].times(acquire))
			slot, err := s.Acquire(t.Context())
			wantErr(t, err)
			synctest.Wait()
			if asked := len(c.nodes[0].times(acquire)) - before; asked != 2 {
				t.Errorf("%d names were asked for; want 2", asked)
			}
			if i > 0 && slot.Number() != number {
				t.Errorf("slot %d after %d", slot.Number(), number)
			}
			number = slot.Number()
			if want := name + "#" + strconv.Itoa(number); slot.Name() != want || number < 0 || number > 49 {
				t.Errorf("slot %d, %q", number, slot.Name())
			}
			slot.Release(t.Context())
			synctest.Wait()
		}
		before := len(c.nodes[0].times(acquire))
		var all []*fenlock.Slot
		for range 50 {
			slot, err := s.TryAcquire(t.Context())
			wantErr(t, err)
			all = append(all, slot)
		}
		synctest.Wait()
		if asked := len(c.nodes[0].times(acquire)) - before; asked != 100 {
			t.Errorf("%d names were asked for; want 100: what a process has itself it does not ask for", asked)
		}
		for _, slot := range all {
			slot.Release(t.Context())
		}
	})
}

// A client that uses another number of slots learns both, while a slot is held, and at once. When
// none is, the number may be another one.
func TestSlotsAreOneNumber(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		three, five := c.slots(t, 3), c.slots(t, 5)
		slot, err := three.Acquire(t.Context(), fenlock.WithLabel("worker/7"))
		wantErr(t, err)
		began := time.Now()
		for _, try := range []func(context.Context, ...fenlock.Option) (*fenlock.Slot, error){five.Acquire, five.TryAcquire} {
			_, err := try(t.Context())
			if !errors.Is(err, fenlock.ErrSlots) || errors.Is(err, fenlock.ErrHeld) {
				t.Fatal(err)
			}
			if text := err.Error(); !strings.Contains(text, "5 slots for the caller and 3 for worker/7") {
				t.Error(text)
			}
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("it waited for %v", waited)
		}
		more, err := three.TryAcquire(t.Context()) // what failed has left nothing behind
		wantErr(t, err)
		for _, s := range []*fenlock.Slot{slot, more} {
			wantErr(t, s.Release(t.Context()))
		}
		slot, err = five.TryAcquire(t.Context())
		wantErr(t, err)
		slot.Release(t.Context())
	})
}

// A client that waits because another has the name alone learns of another number when that has
// gone.
func TestSlotsWaitForTheName(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		alone, err := c.queuer().Acquire(t.Context(), name)
		wantErr(t, err)
		_, err = c.slots(t, 3).TryAcquire(t.Context())
		wantErr(t, err, fenlock.ErrHeld)
		type result struct {
			n    int
			slot *fenlock.Slot
			err  error
		}
		results := make(chan result, 3)
		for _, n := range []int{3, 3, 5} {
			s := c.slots(t, n)
			go func() {
				slot, err := s.Acquire(t.Context())
				results <- result{n, slot, err}
			}()
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if len(results) > 0 {
			t.Fatal("somebody has a slot while the name is held")
		}
		alone.Release(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(results) < 3 {
			t.Fatalf("%d have come to an end", len(results))
		}
		// They come at the same moment. Clients of either number may win.
		var had []*fenlock.Slot
		numbers, failed := map[int]bool{}, 0
		for range 3 {
			switch r := <-results; {
			case r.err == nil:
				had, numbers[r.n] = append(had, r.slot), true
			case errors.Is(r.err, fenlock.ErrSlots):
				failed++
			default:
				t.Error(r.err)
			}
		}
		if len(numbers) != 1 || failed == 0 {
			t.Errorf("%d have a slot, by %v, %d failed", len(had), numbers, failed)
		}
		if _, err := c.queuer().TryAcquire(t.Context(), name); !errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("the name is to be had alone: %v", err)
		}
		for _, slot := range had {
			slot.Release(t.Context())
		}
		alone, err = c.queuer().TryAcquire(t.Context(), name)
		wantErr(t, err)
		alone.Release(t.Context())
	})
}

// Its token is that of the slot alone: what those who have a slot share has one for all of them.
func TestSlotTokens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		for _, f := range c.nodes { // a holder stays that was promised much
			f.view.Do(t.Context(), node.Request{Op: node.Acquire, Name: name, Shared: true, Token: 1 << 51, TTL: time.Minute,
				Holder: node.NewHolder([node.IDLength]byte([]byte(strings.Repeat("a", node.IDLength))), time.Now(), 1, "")})
		}
		last := fence.Token(0)
		for range 3 { // by processes that know nothing of that number
			slot, err := c.slots(t, 1).Acquire(t.Context())
			wantErr(t, err)
			if slot.Token() <= last {
				t.Errorf("token %d after %d", slot.Token(), last)
			}
			last = slot.Token()
			slot.Release(t.Context())
		}
	})
}

// A slot may be kept, and have other terms, as every lock. It is held by two locks, and neither
// shared nor exported.
func TestSlotOptions(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		slot, err := c.slots(t, 1).Acquire(t.Context(), fenlock.WithMinHold(30*time.Second))
		wantErr(t, err)
		wantErr(t, slot.Release(t.Context()))
		began := time.Now()
		slot, err = c.slots(t, 1).Acquire(t.Context(), fenlock.WithMaxHold(20*time.Second))
		wantErr(t, err)
		if waited := time.Since(began); waited < 29*time.Second || waited > 31*time.Second {
			t.Errorf("it was kept for %v", waited)
		}
		wantErr(t, slot.Extend(t.Context()))
		wantErr(t, slot.Downgrade(t.Context()), fenlock.ErrInvalid)
		_, err = slot.Export(t.Context())
		wantErr(t, err, fenlock.ErrInvalid)
		wantCause(t, slot.Context(), nil)
		time.Sleep(time.Minute)
		wantCause(t, slot.Context(), fenlock.ErrMaxHold)
		alone, err := c.queuer().TryAcquire(t.Context(), name)
		wantErr(t, err)
		alone.Release(t.Context())
	})
}

func TestSlotsInvalid(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.queuer()
		for _, n := range []int{-1, 0, fenlock.MaxSlots + 1} {
			if _, err := l.Slots(name, n); !errors.Is(err, fenlock.ErrInvalid) ||
				!strings.Contains(err.Error(), strconv.Itoa(n)) {
				t.Errorf("%d slots: %v", n, err)
			}
		}
		long := strings.Repeat("x", fenlock.MaxNameLength-1)
		for _, bad := range []string{"", "a\n", long} {
			_, err := l.Slots(bad, 10)
			wantErr(t, err, fenlock.ErrInvalid)
		}
		s, err := l.Slots(long[1:], 10)
		wantErr(t, err)
		_, err = s.Acquire(t.Context(), fenlock.WithShared())
		wantErr(t, err, fenlock.ErrInvalid)
		_, err = s.Acquire(t.Context(), nil)
		wantErr(t, err, fenlock.ErrInvalid)
		c.wantRequests(allOps, 0)
	})
}
