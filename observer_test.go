package fenlock_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// observed returns a Locker whose callers wait for "held", and the lock that they
// wait for.
func observed(t *testing.T, waiting func(*fenlock.Locker)) (locker *fenlock.Locker, held *fenlock.Lock) {
	t.Helper()
	n := memnode.New("a node")
	// Told one after the other, on one goroutine, as those of a connection are.
	answers := make(chan func(), 100)
	go func() {
		for tell := range answers {
			tell()
		}
	}()
	t.Cleanup(func() {
		time.Sleep(time.Minute) // what is left to do is done
		close(answers)
	})
	l := ordered{n, func(r node.Request, call node.Call) {
		answer, err := n.Do(context.Background(), r)
		answers <- func() { call.Done(answer, err) }
	}}
	locker = newLocker(t, fenlock.Config{Nodes: []fenlock.Node{l}, Observer: fenlock.Observer{
		Waiting: func(context.Context, string, error) { waiting(locker) },
	}})
	return locker, take(t, process(t, n, fenlock.Config{}), "held")
}

// An observer that takes its time is waited for by its caller, not by other users of the same
// connection.
func TestObserverThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		l, held := observed(t, func(*fenlock.Locker) { <-proceed })
		done := make(chan error)
		go func() {
			lock, err := l.Acquire(context.Background(), "held")
			if err == nil {
				err = lock.Release(context.Background())
			}
			done <- err
		}()
		synctest.Wait()
		wantErr(t, take(t, l, "another").Release(t.Context()))
		close(proceed)
		wantErr(t, held.Release(t.Context()))
		wantErr(t, <-done)
	})
}

// An observer may use the Locker for another name.
func TestObserverThatTakesALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, held := observed(t, func(l *fenlock.Locker) {
			wantErr(t, take(t, l, "another").Release(context.Background()))
		})
		time.AfterFunc(time.Second, func() { held.Release(context.Background()) })
		lock, err := l.Acquire(t.Context(), "held")
		wantErr(t, err)
		wantErr(t, lock.Release(t.Context()))
	})
}

// An observer that panics does so in its caller's goroutine, which may recover. No goroutine is
// left behind that would take the lock.
func TestObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, held := observed(t, func(*fenlock.Locker) { panic("an observer") })
		for range 3 { // the second and the third may wait behind the one before
			wantPanic(t, func() { l.Acquire(context.Background(), "held") })
		}
		wantErr(t, held.Release(t.Context()))
		synctest.Wait()
		wantErr(t, take(t, l, "held").Release(t.Context()))
		time.Sleep(time.Minute)
		if n := fenlock.Waiters(l); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
	})
}

func TestObserverHearsWhyOneWaits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer(label("worker 1"))).lock
		second := c.comes(c.queuer(label("worker 2")))
		var mu sync.Mutex
		var heard []string
		type key struct{}
		ctx := context.WithValue(context.Background(), key{}, "mine")
		l := c.queuer(func(config *fenlock.Config) {
			config.Observer.Waiting = func(ctx context.Context, name string, why error) {
				mu.Lock()
				defer mu.Unlock()
				held := why.(*fenlock.HeldError)
				heard = append(heard, fmt.Sprintf("%s %v: %s, %d ahead", name, ctx.Value(key{}), held.HeldBy, held.Ahead))
			}
		})
		third := c.comesUntil(ctx, l)
		fourth := c.comesUntil(ctx, l)
		time.Sleep(time.Minute + 300*time.Millisecond) // the same again is no news
		c.gives(lock)
		time.Sleep(5 * time.Second)
		mu.Lock()
		got := strings.Join(heard, "\n")
		mu.Unlock()
		want := []string{
			"orders/42 mine: worker 1, 1 ahead",
			"orders/42 mine: worker 1, 2 ahead",
			"orders/42 mine: worker 2, 0 ahead",
		}
		if got != strings.Join(want, "\n") {
			t.Errorf("heard\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		for _, a := range []*arrival{second, third, fourth} {
			<-a.done
			c.gives(a.lock)
		}
	})
}

// Whatever fields there are: each is told to all who have it, in their order, with what
// was told.
func TestJoinObservers(t *testing.T) {
	var heard []string
	// some returns an Observer that has the fields that are asked for.
	some := func(who string, has func(i int) bool) (o fenlock.Observer) {
		v := reflect.ValueOf(&o).Elem()
		for i := range v.NumField() {
			if has(i) {
				v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
					heard = append(heard, fmt.Sprint(who, " ", len(args), " ", args[len(args)-1]))
					return nil
				}))
			}
		}
		return o
	}
	a := some("a", func(int) bool { return true })
	b := some("b", func(i int) bool { return i%2 == 0 })
	c := some("c", func(i int) bool { return i%3 == 0 })
	all := reflect.ValueOf(fenlock.JoinObservers(a, fenlock.Observer{}, b, c))
	alone := reflect.ValueOf(fenlock.JoinObservers(b))
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if alone.Field(i).IsNil() != (i%2 != 0) {
			t.Errorf("%s is heard by nobody, and costs something, or is not heard", name)
		}
		var args []reflect.Value
		for k := range all.Field(i).Type().NumIn() {
			arg := reflect.New(all.Field(i).Type().In(k)).Elem()
			if arg.Kind() == reflect.Struct {
				arg.FieldByName(arg.Type().Field(0).Name).SetString("it")
			}
			args = append(args, arg)
		}
		heard = nil
		all.Field(i).Call(args)
		var want []string
		for _, who := range []struct {
			name string
			each int
		}{{"a", 1}, {"b", 2}, {"c", 3}} {
			if i%who.each == 0 {
				want = append(want, fmt.Sprint(who.name, " ", len(args), " ", args[len(args)-1]))
			}
		}
		if strings.Join(heard, "; ") != strings.Join(want, "; ") {
			t.Errorf("%s: heard %q; want %q", name, heard, want)
		}
	}
	if none := reflect.ValueOf(fenlock.JoinObservers()); !none.IsZero() {
		t.Error("of no observers, something is heard")
	}
}
