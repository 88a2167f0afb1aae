//go:build linux || darwin || freebsd

package filenode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// names returns names of one room.
func names(count int) (all []string) {
	for i := 0; len(all) < count; i++ {
		if name := fmt.Sprint("name ", i); roomOf(name) == 0 {
			all = append(all, name)
		}
	}
	return all
}

// kept is what is remembered of a room, for comparison.
func kept(t *testing.T, n *Node, name string) string {
	t.Helper()
	r := inFile(t, n, name)
	return fmt.Sprint(r.Leases, r.Registers, r.Queues)
}

// writes are the writes of an operation, in their order.
type writes struct {
	disk
	at    []int64
	bytes [][]byte
}

func (w *writes) WriteAt(b []byte, at int64) (int, error) {
	w.at, w.bytes = append(w.at, at), append(w.bytes, bytes.Clone(b))
	return len(b), nil
}

// A process can be killed after any byte that it writes. What is left is the room before the
// operation, or after it: in each of its levels, and when it goes from one to another.
func TestWriteCutOff(t *testing.T) {
	n, _ := newNode(t)
	all := names(36)
	random := rand.New(rand.NewPCG(1, 2))
	levels := map[int]bool{}
	for step := range 2 * len(all) {
		name := all[min(step, 2*len(all)-1-step)] // one after the other comes, and goes
		w := &writes{disk: n}
		r := inFile(t, n, name)
		was := kept(t, n, name)
		if step < len(all) {
			r.Leases[name] = rule.Lease{Holder: node.Holder(strings.Repeat("x", 2000)), Expires: n.clock() + time.Hour}
		} else {
			delete(r.Leases, name)
		}
		if err := r.write(w, &n.header, n.clock()); err != nil {
			t.Fatal(err)
		}
		is, now := fmt.Sprint(r.Leases, r.Registers, r.Queues), was
		for i, b := range w.bytes {
			for done := 0; done < len(b); {
				some := 1
				if done > 40 && done < len(b)-40 {
					some = min(1+random.IntN(1000), len(b)-40-done)
				}
				before := now
				if now = kept(t, n, name); now != before && now != is {
					t.Fatalf("step %d: after %d bytes of write %d it is\n%s\nand was\n%s", step, done, i, now, before)
				}
				if _, err := n.WriteAt(b[done:done+some], w.at[i]+int64(done)); err != nil {
					t.Fatal(err)
				}
				done += some
			}
		}
		if now := kept(t, n, name); now == was || now != is {
			t.Fatalf("step %d: %s", step, now)
		}
		levels[inFile(t, n, name).level] = true
	}
	if len(levels) != len(sizes) {
		t.Errorf("only the levels %v were written", levels)
	}
}

// full is a disk without room.
type full struct {
	writes
	asked []int64
}

func (f *full) reserve(at, size int64) error {
	f.asked = []int64{at, size}
	return syscall.ENOSPC
}

// A room that is new, or grows, has all of its place on the disk before anything is written. If
// there is no place, it is as it was. After that it asks for no more.
func TestRoomIsReservedFirst(t *testing.T) {
	n, _ := newNode(t)
	name, big := names(2)[0], names(2)[1]
	do := func(d disk, change func(r *room)) error {
		r := inFile(t, n, name)
		change(r)
		return r.write(d, &n.header, n.clock())
	}
	leases := func(size int) func(r *room) {
		return func(r *room) {
			r.Leases[name] = rule.Lease{Holder: "h", Expires: n.clock() + time.Hour}
			r.Leases[big] = rule.Lease{Holder: node.Holder(strings.Repeat("h", size)), Expires: n.clock() + time.Hour}
		}
	}
	for level, size := range []int{10, page, 16 * page} {
		f := &full{}
		if err := do(f, leases(size)); !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, node.ErrNotSent) || f.at != nil {
			t.Errorf("level %d: %v, written at %v", level, err, f.at)
		}
		if want := []int64{copyAt(level, 0, 0), 2 * sizes[level]}; !slices.Equal(f.asked, want) {
			t.Errorf("level %d: reserved %v; want %v", level, f.asked, want)
		}
		for _, size := range []int{size, size + 1, size - 1} {
			if err := do(n, leases(size)); err != nil {
				t.Fatal(err)
			}
		}
		if err := do(&full{}, leases(size+2)); err != nil {
			t.Errorf("level %d, again: %v", level, err)
		}
	}
}

// Bytes that are not what a write leaves are an error: an older copy must not come back.
func TestDamagedRoom(t *testing.T) {
	n, path := newNode(t)
	r := request(names(1)[0], "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	big := names(200)
	for _, what := range []string{"small", "newer of two", "large"} {
		grow := what == "large"
		if what == "newer of two" {
			want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
		}
		if grow {
			with(t, n, r.Name, func(r *room) {
				for _, name := range big {
					r.Leases[name] = rule.Lease{Holder: node.Holder(strings.Repeat("h", 100)), Expires: n.clock() + time.Hour}
				}
			})
			with(t, n, r.Name, func(r *room) { delete(r.Leases, big[5]) })
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := inFile(t, n, r.Name)
		flip := func(place int64) {
			b := append([]byte{}, whole...)
			b[place] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if grow { // the body of the newer copy
			flip(copyAt(1, 0, at.which) + 100)
		} else if what == "newer of two" {
			flip(copyAt(0, 0, at.which) + head)
		} else { // the only copy there is, and what would be the other copy
			flip(copyAt(0, 0, at.which) + head)
			f, _ := os.OpenFile(path, os.O_RDWR, 0)
			f.WriteAt([]byte{9, 9, 9, 9, 9}, copyAt(0, 0, 1-at.which))
			f.Close()
		}
		_, err = n.Do(t.Context(), as(node.Acquire, request(r.Name, "", 0)))
		problem(t, err, path, "damaged", "room 0")
		if !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%s: %v", what, err)
		}
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("of another room "+what, "", 0))))
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A name that is used once leaves nothing: a room has what is live, and registers.
func TestEndedIsForgotten(t *testing.T) {
	n, _ := newNode(t)
	now := time.Hour
	n.clock = func() time.Duration { return now }
	largest := 0
	for i, name := range names(500) {
		r := request(name, "", 0)
		r.TTL = time.Second
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks(name, clientA+":1", 1))))
		now += 100 * time.Millisecond // 10 leases and 150 queues are live at any time
		if r := inFile(t, n, name); i > 200 {
			largest = max(largest, len(r.Leases)+len(r.Queues))
		}
	}
	if largest > 10+150+2 {
		t.Errorf("%d leases and queues for 160 live ones", largest)
	}
}

// A room that is full says so, and what is in it can be extended and released.
func TestRoomIsFull(t *testing.T) {
	n, path := newNode(t)
	all := names(3)
	r := request(all[0], "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	with(t, n, all[0], func(room *room) {
		size := int(sizes[2]-head) - len(room.body) - 4000
		room.Leases[all[1]] = rule.Lease{Holder: node.Holder(strings.Repeat("h", size)), Expires: n.clock() + time.Hour}
	})
	long := request(all[2], strings.Repeat("x", 4000), 0)
	_, err := n.Do(t.Context(), as(node.Acquire, long))
	if problem(t, err, path, "too many leases and waiters", "free some space"); !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v may have been carried out", err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
}

// What a room is written as is what it is read as.
func TestCoding(t *testing.T) {
	seed := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		r := &room{Store: rule.Store{Registers: map[int]fence.Token{}, Leases: map[string]rule.Lease{},
			Queues: map[string]rule.QueueRecord{}}}
		for _, name := range names(seed.IntN(5)) {
			r.Registers[node.Stripe(name)] = 10 + fence.Token(seed.Uint64N(uint64(fence.MaxToken-10)))
			r.Leases[name] = rule.Lease{Holder: "h\x00\n", Expires: 1 + time.Duration(seed.Int64()),
				Origin: fence.Token(seed.IntN(3)), Token: fence.MaxToken}
			q := rule.QueueRecord{Expires: 1 + time.Duration(seed.Int64()),
				Waiters: rule.Waiters{{Waiter: clientA + ":1", Stamp: seed.Int64N(1 << 53)}}}
			r.Queues[name] = q
		}
		got := &room{body: r.encode(0, 0)}
		if err := got.decode(0); err != nil || !reflect.DeepEqual(got.Store, r.Store) {
			t.Fatalf("%+v, %v; want %+v", got.Store, err, r.Store)
		}
		cut := got.body[:seed.IntN(len(got.body))]
		if err := (&room{body: cut}).decode(0); err == nil && len(cut) > 0 {
			t.Errorf("%d of %d bytes were read", len(cut), len(got.body))
		}
	}
}

// Whatever is in a room, it is read or refused.
func FuzzRoom(f *testing.F) {
	r := &room{Store: rule.Store{Registers: map[int]fence.Token{0: 5},
		Leases: map[string]rule.Lease{names(1)[0]: {Holder: "h", Expires: 9}},
		Queues: map[string]rule.QueueRecord{names(1)[0]: {Expires: 9,
			Waiters: rule.Waiters{{Waiter: clientA + ":1", Stamp: 3}}}}}}
	f.Add(r.encode(0, 0))
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := &room{body: body}
		if r.decode(3) != nil {
			return
		}
		for stripe, token := range r.Registers {
			if token < 3 || token > fence.MaxToken || stripe%rooms != 0 {
				t.Errorf("stripe %d has %d", stripe, token)
			}
		}
		again := &room{body: r.encode(3, 0)}
		if err := again.decode(3); err != nil {
			t.Errorf("what was read cannot be written and read: %v", err)
		}
	})
}
