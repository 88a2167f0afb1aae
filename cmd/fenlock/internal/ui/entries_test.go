package ui

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
)

// named is a lock in a table: NAME, NAME/5 with so many slots, *NAME that is free, and a number
// of waiters after a +.
func named(text string) lock {
	l := lock{}
	l.State = admin.Held
	if name, free := strings.CutPrefix(text, "*"); free {
		l.State, text = admin.Free, name
	}
	text, waiting, _ := strings.Cut(text, "+")
	fmt.Sscan(waiting, &l.Waiting)
	name, slots, _ := strings.Cut(text, "/")
	fmt.Sscan(slots, &l.Slots)
	l.Name = name
	return l
}

// The slots of a name are one row.
func TestEntries(t *testing.T) {
	for _, c := range []struct{ locks, want string }{
		{"", ""},
		{"a b", "a b"},
		{"gpu/5 gpu#0 gpu#3 other", "gpu[0 3]=2of5 other"},
		{"gpu/5 gpu#0 *gpu#3+2", "gpu[0 3]=1of5+2"},
		// each of them waits once
		{"gpu/3+1 gpu#0+7 gpu#1+7 gpu#2+6", "gpu[0 1 2]=3of3+7"},
		// numbers, and not texts
		{"gpu/12 gpu#0 gpu#1 gpu#10 gpu#2", "gpu[0 1 2 10]=4of12"},
		// of what is not in the list
		{"gpu#0 gpu#1", "gpu#0 gpu#1"},
		// which has no slots
		{"gpu gpu#0", "gpu gpu#0"},
		{"gpu/2 gpu#2 gpu#01 gpu#x gpu# gpu#-1 gpu#0 #0", "gpu[0]=1of2 gpu#2 gpu#01 gpu#x gpu# gpu#-1 #0"}, // no slots of it
		{"gpu!x gpu/2 gpu#1", "gpu!x gpu[1]=1of2"},
	} {
		var locks []lock
		for _, text := range strings.Fields(c.locks) {
			locks = append(locks, named(text))
		}
		var got []string
		for _, e := range entriesOf(locks) {
			text := e.Name
			if e.Slots > 0 {
				var numbers []int
				for _, s := range e.slots {
					numbers = append(numbers, s.number)
				}
				text += fmt.Sprintf("%v=%dof%d", numbers, e.heldSlots(), e.Slots)
			}
			if n := e.queue().Waiting; n > 0 {
				text += fmt.Sprintf("+%d", n)
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v; want %s", c.locks, got, c.want)
		}
	}
}

func TestOrders(t *testing.T) {
	old := func(seconds int) lock {
		l := named("")
		if seconds > 0 {
			l.Since = at(-seconds)
		}
		return l
	}
	with := func(name string, age, waiting int) entry {
		l := old(age)
		l.Name, l.Waiting = name, waiting
		return entry{lock: l}
	}
	slots := with("e", 0, 0)
	slots.Slots, slots.slots = 2, []slot{{old(30), 0}, {old(15), 1}}
	slots.slots[1].Waiting = 9
	shared := with("f", 0, 1)
	shared.Shares = []admin.Share{{Since: at(-5)}, {Since: at(-50)}}
	all := []entry{with("a", 10, 0), with("b", 0, 3), with("c", 40, 3), with("d", 10, 1), slots, shared}
	for _, c := range []struct {
		order order
		want  string
	}{{byName, "a b c d e f"}, {byAge, "f c e a d b"}, {byWaiting, "e c b f d a"}} {
		sorted := slices.Clone(all)
		c.order.sort(sorted)
		var names []string
		for _, e := range sorted {
			names = append(names, e.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("by %q: %s; want %s", c.order, got, c.want)
		}
	}
}

// The order is that of the page, of its links, and of what the page is sent.
func TestPageIsSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		for i, name := range []string{"c", "a", "b"} {
			f.hold(name, "x", 1, strings.Split("w w w", " ")[:i]...)
			time.Sleep(time.Second)
		}
		a := browse(t, Config{Source: f})
		for order, want := range map[string]string{"": "abc", "age": "cab", "waiting": "bac"} {
			v := url.Values{"filter": {""}}
			if order != "" {
				v.Set("order", order)
			}
			r := a.get("/?" + v.Encode())
			places := []int{}
			for _, name := range want {
				places = append(places, strings.Index(r.body, `href="lock?name=`+string(name)+`"`))
			}
			if places[0] < 0 || !slices.IsSorted(places) {
				t.Errorf("by %q: %v of %s", order, places, want)
			}
			ids := a.stream("/events?" + v.Encode()).next().Lists["locks"].Order
			for i, name := range want {
				if ids[i] != lockID(string(name)) {
					t.Errorf("by %q: what is sent begins otherwise at %d", order, i)
				}
			}
		}
		a.get("/?order=x").want(t, 400, "there is no order")
		a.get("/?order=age&filter=a&waiting=1").want(t, 200, `name="order" value="age"`,
			`href="./?filter=a&amp;order=waiting&amp;waiting=1"`,
			`href="./?filter=a&amp;order=age&amp;waiting=1" aria-current="true"`)
	})
}

// share has several share a lock in a fake.
func (f *fake) share(name string, slots int, labels ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.held(name, labels[0]+" and more that share it", 0)
	l.Since, l.Slots = time.Time{}, slots
	for i, label := range labels {
		l.Shares = append(l.Shares, admin.Share{Label: label, Since: at(i), Token: fence.Token(70 + i), Left: l.Left,
			Nodes: len(f.nodes)})
	}
	f.locks[name] = l
}

// The page names each holder of a shared lock and of a slot, and the trail tells what they do.
func TestShared(t *testing.T) {
	onPage(t, 3, Config{AllowRelease: true}, func(t *testing.T, f *fake, a *asking) {
		f.share("read", 0, "<b>web-1</b>/17", "web-2/18", "web-3/19", "web-4/20")
		f.share("gpu", 5, "job-1", "job-2", "job-3")
		for i := range 3 {
			f.hold(fmt.Sprint("gpu#", i), fmt.Sprint("job-", i+1), 10, "w1", "w2")
		}
		f.share("alone", 0, "reader/1")
		r := a.get("/")
		r.want(t, 200, "shared by 4", "&lt;b&gt;web-1&lt;/b&gt;/17", "web-3/19", "and 1 more", "3 of 5 slots", "job-3",
			`href="lock?name=gpu%232"`, "reader/1", "3 locks are held, and 2 wait.", "not", "<b>web-1", "web-4/20",
			"that share it", `href="break?name=gpu"`)
		if n := strings.Count(r.body, `<tr id="lock-`); n != 3 {
			t.Errorf("%d rows", n)
		}
		a.get("/lock?name=read").want(t, 200, "Shared by 4", "Holders that share it", "web-4/20", "token 73", "not",
			"<b>web-1")
		a.get("/lock?name=gpu").want(t, 200, "3 of 5 slots are held", "Holders of slots", "job-1", "w2")
		a.get("/lock?name=gpu%232").want(t, 200, "Held by job-3", `A slot of <a href="lock?name=gpu">gpu</a>`,
			`href="break?name=gpu%232"`)
		a.get("/?filter=gpu%232").want(t, 200, "3 of 5 slots")
		a.get("/break?name=read").want(t, 200, "web-2/18, web-3/19 and 1 more that share it", "Each of them")

		for i := range 3 {
			f.hold(fmt.Sprint("gpu#", i), fmt.Sprint("job-", i+1), 10)
		}
		time.Sleep(time.Minute)
		s := a.stream("/events")
		s.next()
		f.share("read", 0, "<b>web-1</b>/17", "web-2/18", "web-3/19", "web-4/20", "web-5/21")
		if got := strings.Join(s.next().Trail, " "); strings.Count(got, "<li") != 1 ||
			!strings.Contains(got, "shared by web-5/21, too") {
			t.Errorf("one came: %s", got)
		}
		f.change(func() {
			l := f.locks["read"]
			l.Shares = l.Shares[1:3]
			f.locks["read"] = l
			delete(f.locks, "gpu#0")
		})
		f.share("gpu", 5, "job-2", "job-3")
		if got := strings.Join(s.next().Trail, " "); strings.Count(got, "<li") != 4 ||
			!strings.Contains(got, "web-4/20 shares it no more") || !strings.Contains(got, "free; job-1 had it") {
			t.Errorf("some went: %s", got)
		}
		// The last one has it alone, as before.
		f.hold("read", "web-2/18", 71)
		f.change(func() { l := f.locks["read"]; l.Since = at(1); f.locks["read"] = l })
		if got := strings.Join(s.next().Trail, " "); strings.Count(got, "<li") != 1 ||
			!strings.Contains(got, "web-3/19 shares it no more") {
			t.Errorf("one has it alone: %s", got)
		}
	})
}

// A waiter for a slot is in the queues of all slots, at about the same time, and is told of once.
func TestWaitersForSlots(t *testing.T) {
	queue := func(asked bool, all ...waiter) slot {
		return slot{lock: lock{LockInfo: admin.LockInfo{Waiting: len(all)}, waiters: all, queued: asked}}
	}
	w1, again, w2, later := waiter{"w1", at(0)}, waiter{"w1", at(0).Add(jitter / 2)}, waiter{"w2", at(0)}, waiter{"w1",
		at(60)}
	for i, c := range []struct {
		slots []slot
		want  []waiter
		whole bool
	}{
		{[]slot{queue(true, w1, w2), queue(true, again, w2)}, []waiter{w1, w2}, true},
		{[]slot{queue(true, w1), queue(true, again, w2), queue(true, w2, later)}, []waiter{w1, w2, later}, true},
		{[]slot{queue(true, w1, again)}, []waiter{w1, again}, true}, // two of one label
		{[]slot{queue(true, w1), queue(false, w1, w2)}, []waiter{w1, w2}, false},
		{[]slot{queue(false), queue(false)}, nil, true},
	} {
		all, whole := entry{slots: c.slots}.waiters()
		if fmt.Sprint(all) != fmt.Sprint(c.want) || whole != c.whole {
			t.Errorf("%d: %v, %v; want %v, %v", i, all, whole, c.want, c.whole)
		}
	}
}

// What a page shows of a shared lock is what it breaks: another one that shares it has it ask
// again.
func TestBreakShared(t *testing.T) {
	onPage(t, 3, Config{AllowRelease: true}, func(t *testing.T, f *fake, a *asking) {
		f.share("read", 0, "web-1/17", "web-2/18")
		form := a.get("/break?name=read").form(t, "read")
		l := f.locks["read"]
		f.share("read", 0, "web-1/17", "web-3/19")
		f.change(func() { n := f.locks["read"]; n.Label = l.Label; f.locks["read"] = n })
		a.do("POST", "/break", form).want(t, 409, "Nothing was broken")
		if len(f.broken) > 0 {
			t.Errorf("broke %q", f.broken)
		}
		a.do("POST", "/break", a.get("/break?name=read").form(t, "read")).want(t, 200, "read is broken")
	})
}
