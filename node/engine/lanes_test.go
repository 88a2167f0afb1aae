package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
)

// aCall is what a caller wants of lanes, and why its batch ended.
type aCall struct {
	n     int
	ended error
}

// carrier is lanes whose batches go on until they are told, or their context ends.
type carrier struct {
	Lanes[*aCall]
	batches [][]int
	goOn    chan bool
}

func newCarrier(most int) *carrier {
	c := &carrier{goOn: make(chan bool)}
	c.Lanes = Lanes[*aCall]{Life: NewLifetime(), Most: most, Timeout: time.Minute}
	c.Do = func(ctx context.Context, calls []*aCall) {
		var all []int
		for _, one := range calls {
			all = append(all, one.n)
		}
		c.batches = append(c.batches, all)
		select {
		case <-c.goOn:
		case <-ctx.Done():
		}
		for _, one := range calls {
			one.ended = ctx.Err()
		}
	}
	return c
}

// join has a call carried out, and returns what is told of it later.
func (c *carrier) join(ctx context.Context, n int) (*aCall, chan error) {
	one, said := &aCall{n: n}, make(chan error, 1)
	go func() { said <- c.Join(ctx, one) }()
	synctest.Wait()
	return one, said
}

// What comes while all lanes are busy goes together, as far as it fits.
func TestLanesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCarrier(2)
		c.Fits = func(batch []*aCall, one *aCall) bool { return len(batch) < 3 && one.n != batch[0].n }
		var all []chan error
		for _, n := range []int{1, 2, 3, 3, 4, 5, 6} {
			_, said := c.join(t.Context(), n)
			all = append(all, said)
		}
		if n := c.Waiting(); n != 5 {
			t.Errorf("%d wait", n)
		}
		close(c.goOn)
		for _, said := range all {
			if err := <-said; err != nil {
				t.Error(err)
			}
		}
		c.Life.End()
		c.Life.Wait()
		slices.SortFunc(c.batches[2:], func(a, b []int) int { return len(b) - len(a) })
		for i, want := range [][]int{{1}, {2}, {3, 4, 5}, {3, 6}} {
			if i >= len(c.batches) || !slices.Equal(c.batches[i], want) {
				t.Fatalf("the batches are %v", c.batches)
			}
		}
		if err := c.Join(t.Context(), &aCall{}); !errors.Is(err, ErrClosed) || !errors.Is(err, node.ErrNotSent) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A caller that gives up before its batch begins has sent nothing. A batch ends with the last of
// its callers, which is told how, and by the deadline of the most patient one.
func TestLanesLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCarrier(1)
		defer c.Life.End()
		first, _ := c.join(t.Context(), 1)
		patient, giveUp := context.WithCancel(t.Context())
		gone, leave := context.WithCancel(t.Context())
		_, a := c.join(gone, 2)
		two, b := c.join(patient, 3)
		_, d := c.join(second(t), 4)
		leave()
		if err := <-a; !errors.Is(err, node.ErrNotSent) || !errors.Is(err, context.Canceled) {
			t.Errorf("one that had not begun: %v", err)
		}
		c.goOn <- true
		if err := <-d; err != context.DeadlineExceeded || first.ended != nil {
			t.Errorf("one of two: %v", err)
		}
		giveUp()
		if err := <-b; err != nil || two.ended != context.Canceled {
			t.Errorf("the last: %v, and its batch: %v", err, two.ended)
		}
		one, said := c.join(second(t), 5)
		if err := <-said; err != nil || one.ended != context.DeadlineExceeded {
			t.Errorf("the most patient: %v, and its batch: %v", err, one.ended)
		}
		c.Keep = true
		one, said = c.join(second(t), 6)
		if err := <-said; err != context.DeadlineExceeded {
			t.Errorf("of what goes on: %v", err)
		}
		if synctest.Wait(); one.ended != nil {
			t.Error("it has ended")
		}
		c.goOn <- true
		if !slices.EqualFunc(c.batches, [][]int{{1}, {3, 4}, {5}, {6}}, slices.Equal) {
			t.Errorf("the batches are %v", c.batches)
		}
	})
}

func second(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}
