package filenode

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// link is a bound node with one waiter for "a", as a process has them.
type link struct {
	*Node
	request node.Request
	heard   notified
}

func newLink(t testing.TB, path string, number int) *link {
	t.Helper()
	n, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Bind(); err != nil {
		t.Fatal(err)
	}
	client := fmt.Sprintf("%032x", number)
	return &link{n, asks("a", client+":1", int64(number)), listen(t, n, client)}
}

// newLinks returns some, with stamps and places in their order, which are closed in the end.
func newLinks(t *testing.T, path string, count int) (all []*link) {
	for i := range count {
		l := newLink(t, path, i+1)
		t.Cleanup(func() { l.Close() })
		all = append(all, l)
	}
	return all
}

func (l *link) asks(t testing.TB, status node.Status) node.Answer {
	t.Helper()
	return want(t, status)(l.Do(t.Context(), as(node.Acquire, l.request)))
}

// waits asks for a name that is held, and wants a place in the chain.
func (l *link) waits(t testing.TB, ahead int) {
	t.Helper()
	if a := l.asks(t, node.Held); !a.Watching || a.Ahead != ahead {
		t.Errorf("%d are ahead, expected %d; watching: %v", a.Ahead, ahead, a.Watching)
	}
}

func (l *link) releases(t testing.TB) {
	t.Helper()
	r := as(node.Release, l.request)
	r.Place = node.Place{} // it need not say which waiter it was
	want(t, node.Granted)(l.Do(t.Context(), r))
}

// leaves ends a wait.
func (l *link) leaves(t testing.TB) {
	t.Helper()
	want(t, node.Lost)(l.Do(t.Context(),
		node.Request{Op: node.Release, Name: "a", Place: node.Place{Waiter: l.request.Place.Waiter}}))
}

// dies closes what the kernel closes when a process ends, and does nothing else.
func (l *link) dies() {
	l.mu.Lock()
	listeners := l.listeners
	l.closed, l.listeners = true, nil
	l.mu.Unlock()
	for _, of := range listeners {
		close(of.closing)
		of.mu.Lock()
		if of.file != nil {
			of.file.Close()
		}
		of.mu.Unlock()
	}
	l.life.Lock()
	defer l.life.Unlock()
	l.bound.alive.Close()
	l.medium.Close()
}

// Each hears of the end of the one before it, whether that has released, left or died, and of
// nothing else. None of them has a pipe.
func TestChain(t *testing.T) {
	_, path := newNode(t)
	l := newLinks(t, path, 7)
	l[0].asks(t, node.Granted)
	for i, w := range l[1:] {
		w.waits(t, i)
	}
	quiet := func(who ...int) {
		t.Helper()
		for _, i := range who {
			l[i].heard.silent(t)
		}
	}
	hears := func(i int) {
		t.Helper()
		l[i].heard.hears(t, l[i].request.Place.Waiter)
	}
	l[2].leaves(t)
	hears(3)
	l[3].waits(t, 1)
	l[4].dies()
	hears(5)
	l[5].waits(t, 2)
	quiet(1, 3, 6)

	l[0].releases(t)
	hears(1)
	l[1].asks(t, node.Granted)
	quiet(3, 5, 6)
	l[3].dies() // the first in the queue
	hears(5)
	l[5].waits(t, 0)
	l[1].dies() // the holder
	hears(5)
	l[5].asks(t, node.Granted)
	quiet(6)
	l[5].releases(t)
	hears(6)
	l[6].asks(t, node.Granted)
	if pipes, err := os.ReadDir(path + "-waiters"); err != nil || len(pipes) > 0 {
		t.Errorf("%d pipes, %v", len(pipes), err)
	}
}

// A waiter that has come between two others is waited for by the later one from the end of the
// earlier one on.
func TestChainIsJoinedInTheMiddle(t *testing.T) {
	_, path := newNode(t)
	l := newLinks(t, path, 4)
	l[0].asks(t, node.Granted)
	l[1].waits(t, 0)
	l[3].waits(t, 1)
	l[2].waits(t, 1)
	l[1].dies()
	l[2].heard.hears(t, l[2].request.Place.Waiter)
	l[3].heard.hears(t, l[3].request.Place.Waiter)
	l[2].waits(t, 0)
	l[3].waits(t, 1)
	l[2].dies()
	l[3].heard.hears(t, l[3].request.Place.Waiter)
	l[3].waits(t, 0)
}

// A waiter that waits for a holder whose program was killed waits for the command of that.
func TestChainBehindACommand(t *testing.T) {
	_, path := newNode(t)
	l := newLinks(t, path, 3)
	l[0].asks(t, node.Granted)
	l[1].waits(t, 0)
	l[2].waits(t, 1)
	l[0].releases(t)
	l[1].heard.hears(t, l[1].request.Place.Waiter)
	l[1].asks(t, node.Granted)
	command, err := syscall.Dup(int(l[1].bound.alive.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	l[1].dies()
	l[2].heard.hears(t, l[2].request.Place.Waiter)
	l[2].waits(t, 0)
	l[2].heard.silent(t)
	syscall.Close(command)
	l[2].heard.hears(t, l[2].request.Place.Waiter)
	l[2].asks(t, node.Granted)
}

// The first waits for the one that the name is reserved for, and for no longer than the reservation
// lasts.
func TestChainBehindAReservation(t *testing.T) {
	_, path := newNode(t)
	l := newLinks(t, path, 4)
	l[0].asks(t, node.Granted)
	l[1].waits(t, 0)
	l[0].releases(t) // for l[1], which is slow
	if a := l[2].asks(t, node.Held); !a.Watching || a.Remaining == 0 {
		t.Errorf("%+v", a)
	}
	l[1].asks(t, node.Granted)
	l[1].releases(t)
	l[2].heard.hears(t, l[2].request.Place.Waiter)
	l[2].dies() // with a reservation
	if a := l[3].asks(t, node.Held); a.Watching || a.Remaining == 0 {
		t.Errorf("%+v", a)
	}
}

// Behind a waiter, or a lease, that is no part of a chain, no waiter is one, and all have pipes.
func TestNoChain(t *testing.T) {
	n, path := newNode(t)
	plain := listen(t, n, clientA)
	l := newLinks(t, path, 2)
	r := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	if a := l[0].asks(t, node.Held); a.Watching {
		t.Error("a lease by time is watched")
	}
	l[0].heard.hears(t, "")
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 2))))
	l[1].request.Place.Stamp = 3
	if a := l[1].asks(t, node.Held); a.Watching || a.Ahead != 2 {
		t.Errorf("%+v", a)
	}
	l[1].heard.hears(t, "")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	l[0].heard.hears(t, l[0].request.Place.Waiter)
	l[0].asks(t, node.Granted)
	plain.hears(t, clientA+":1") // to watch it
	l[0].releases(t)
	plain.hears(t, clientA+":1")
	l[1].heard.silent(t)
}

// A waiter that others come before which are no part of a chain leaves it, and is told by its pipe.
func TestChainEndsBehindOthers(t *testing.T) {
	n, path := newNode(t)
	plain := listen(t, n, clientA)
	l := newLinks(t, path, 3)
	l[0].asks(t, node.Granted)
	l[2].waits(t, 0)
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 2))))
	if a := l[2].asks(t, node.Held); a.Watching || a.Ahead != 1 || n.bound.chained(l[2].request.Place.Waiter) {
		t.Errorf("%+v, and it has its byte: %v", a, n.bound.chained(l[2].request.Place.Waiter))
	}
	l[2].heard.hears(t, "")
	plain.silent(t)
	l[0].releases(t)
	plain.hears(t, clientA+":1")
}

// Those who want to share the name are all told at its release.
func TestNoChainOfReaders(t *testing.T) {
	_, path := newNode(t)
	l := newLinks(t, path, 3)
	l[0].asks(t, node.Granted)
	for _, reader := range l[1:] {
		reader.request.Shared = true
		reader.request.Place.Waiter = strings.Replace(reader.request.Place.Waiter, ":1", ":01", 1)
		if a := reader.asks(t, node.Held); a.Watching {
			t.Errorf("%+v", a)
		}
		reader.heard.hears(t, "")
	}
	l[0].releases(t)
	for _, reader := range l[1:] {
		reader.heard.hears(t, reader.request.Place.Waiter)
		reader.asks(t, node.Granted)
	}
}

// The first in a chain is told by its pipe what others do to the name. As long as it has none, its
// turn is kept for it.
func TestChainIsToldByOthers(t *testing.T) {
	n, path := newNode(t)
	for what, end := range map[string]func(node.Request) node.Request{
		"a break": func(r node.Request) node.Request { return node.Request{Op: node.ForceRelease, Name: r.Name} },
		"a release by somebody else": func(r node.Request) node.Request {
			return node.Request{Op: node.Release, Name: r.Name, Holder: r.Holder}
		},
	} {
		t.Run(what, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				l := newLinks(t, path, 2)
				l[0].asks(t, node.Granted)
				l[1].waits(t, 0)
				if late {
					l[1].checkPipe(l[1].request.Place.Waiter, false)
					l[1].heard.hears(t, "")
				}
				want(t, node.Granted)(n.Do(t.Context(), end(l[0].request)))
				if late {
					l[1].heard.hears(t, l[1].request.Place.Waiter)
				} else {
					want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
				}
				l[1].asks(t, node.Granted)
				l[1].releases(t)
				for _, one := range l {
					one.Close()
				}
			}
		})
	}
}

// Where the kernel fails to tell of an end, a waiter asks, and is told by its pipe from then on.
func TestChainThatDoesNotHold(t *testing.T) {
	_, path := newNode(t)
	l := newLinks(t, path, 2)
	l[0].asks(t, node.Granted)
	l[1].real = path + "/nowhere" // what it would wait by cannot be opened
	l[1].asks(t, node.Held)
	l[1].heard.hears(t, l[1].request.Place.Waiter)
	l[1].real = path
	if a := l[1].asks(t, node.Held); a.Watching {
		t.Error("it waits in the chain again")
	}
	l[1].heard.hears(t, "")
	l[0].releases(t)
	l[1].heard.hears(t, l[1].request.Place.Waiter)
	l[1].asks(t, node.Granted)
}

// Waiters that come, leave and die at random all get the name, one at a time. None of them asks
// unless it has heard something, or a reservation has ended.
func TestChainLosesNobody(t *testing.T) {
	_, path := newNode(t)
	var numbers, has, granted atomic.Int64
	live := func(seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		for range chainRounds {
			l := newLink(t, path, int(numbers.Add(1)))
			a := l.asksAtRandom(t, random)
			if a.Status != node.Granted {
				continue
			}
			if granted.Add(1); has.Add(1) > 1 {
				t.Error("two have the name")
			}
			time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
			has.Add(-1)
			if random.IntN(4) == 0 {
				l.dies()
				continue
			}
			l.releases(t)
			l.Close()
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { live(uint64(i)) })
	}
	all.Wait()
	t.Log(granted.Load(), "grants")
}

// asksAtRandom waits until it has the name, or leaves or dies before.
func (l *link) asksAtRandom(t testing.TB, random *rand.Rand) (a node.Answer) {
	for {
		a, err := l.Do(t.Context(), as(node.Acquire, l.request))
		if err != nil || a.Status == node.Granted {
			if err != nil {
				t.Error(err)
			}
			return a
		}
		ends, leaves := make(<-chan time.Time), make(<-chan time.Time)
		if a.Remaining > 0 {
			ends = time.After(a.Remaining + time.Millisecond)
		}
		if random.IntN(4) == 0 {
			leaves = time.After(time.Duration(random.IntN(3000)) * time.Microsecond)
		}
		for heard := false; !heard; {
			select {
			case waiter := <-l.heard:
				heard = waiter != "" || !a.Watching // in a chain, what its late pipe brings is not needed
			case <-ends:
				heard = true
			case <-leaves:
				if random.IntN(2) == 0 {
					l.dies()
				} else {
					l.Do(t.Context(), node.Request{Op: node.Release, Name: "a", Place: node.Place{Waiter: l.request.Place.Waiter}})
					l.Close()
				}
				return a
			}
		}
	}
}
