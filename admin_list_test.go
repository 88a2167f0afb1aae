package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
)

// lent has a node lease a name to a client of its own.
func (c *cluster) lent(n int, of string) {
	c.nodes[n].view.Do(c.t.Context(),
		node.Request{Op: node.Acquire, Name: of, TTL: time.Minute, Holder: node.Holder("h" + of)})
}

// Pages, beside a list that is made in one piece. A page has the names that match, whatever lies
// between them.
func TestListInPages(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		random := rand.New(rand.NewPCG(1, 2))
		all := map[string]int{}
		for i := range 500 {
			of := fmt.Sprintf("%c/%d", "abc"[random.IntN(3)], i)
			for n := range c.nodes {
				if random.IntN(3) > 0 {
					c.lent(n, of)
					all[of]++
				}
			}
		}
		a := c.admin()
		nines := func(name string) bool { return strings.HasSuffix(name, "9") }
		for _, prefix := range []string{"", "a/", "b/1", "b/17", "d", "c/499x"} {
			for i, limit := range []int{0, 1, 7, 100, 499, 10_000, 20_000} {
				matches, list := func(string) bool { return true }, a.List
				if i%2 == 0 {
					matches = nines
					list = func(ctx context.Context, prefix, after string, limit int) (admin.Page, error) {
						return a.ListMatching(ctx, prefix, nines, after, limit)
					}
				}
				var got []string
				after, pages := "", 0
				for pages == 0 || after != "" {
					page, err := list(t.Context(), prefix, after, limit)
					wantErr(t, err)
					if limit > 0 && len(page.Locks) > limit || len(page.Locks) == 0 && pages > 0 {
						t.Fatalf("%d locks on a page of %d", len(page.Locks), limit)
					}
					for _, l := range page.Locks {
						got = append(got, l.Name)
						if (l.State == admin.Held) != (all[l.Name] >= 2) || len(l.Votes) != 3 {
							t.Errorf("%+v has %d leases", l, all[l.Name])
						}
					}
					after = page.After
					pages++
				}
				var want []string
				for of := range all {
					if strings.HasPrefix(of, prefix) && matches(of) {
						want = append(want, of)
					}
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("prefix %q, pages of %d: %d names; want %d", prefix, limit, len(got), len(want))
				}
				if limit > 0 && pages != max(1, (len(want)+limit-1)/limit) {
					t.Errorf("prefix %q, pages of %d: %d pages for %d names", prefix, limit, pages, len(want))
				}
				if limit == 1 {
					break // once is enough
				}
			}
		}
	})
}

// A node that fails is named, and the rest is shown.
func TestListWithNodesMissing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.admin()
		wait := c.lockerOn((*faulty).queuer)
		lock := take(t, c.lockerOn((*faulty).queuer), name)
		synctest.Wait() // for the third node
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan bool)
		go func() {
			wait.Acquire(ctx, name)
			close(gone)
		}()
		time.Sleep(time.Second)
		c.nodes[1].set("look", down)
		page, err := a.List(t.Context(), "", "", 0)
		wantErr(t, err)
		if len(page.Locks) != 1 || len(page.Errors) != 1 || page.Errors[0].Node != "b" ||
			!errors.Is(page.Errors[0].Err, errDown) {
			t.Fatalf("%+v", page)
		}
		if l := page.Locks[0]; l.State != admin.Held || l.Waiting != 1 || l.Votes[1].Err == nil || l.Token != lock.Token() ||
			l.Waiters != nil {
			t.Errorf("%+v", l)
		}
		c.nodes[2].set("look", down)
		page, err = a.List(t.Context(), "", "", 0)
		wantErr(t, err, fenlock.ErrNoQuorum)
		if len(page.Locks) != 1 || page.Locks[0].State != admin.Unclear {
			t.Errorf("%+v", page)
		}
		cancel()
		<-gone
		wantErr(t, lock.Release(t.Context()))
	})
}

// Of nodes that are far, a list of many locks takes a few round trips, not one for each.
func TestListOfFarNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		for i := range 100 {
			for n := range c.nodes {
				c.lent(n, fmt.Sprint("a", i))
			}
		}
		for _, f := range c.nodes {
			f.set("look", fault{request: 50 * time.Millisecond})
		}
		began := time.Now()
		page, err := c.admin().List(t.Context(), "a", "", 1000)
		if wantErr(t, err); len(page.Locks) != 100 {
			t.Errorf("%d locks", len(page.Locks))
		}
		if took := time.Since(began); took != 250*time.Millisecond { // the list, and 100 names by 32
			t.Errorf("it took %v", took)
		}
	})
}

// Nodes that are asked and never answer, as those of etcd do where nothing listens, are not waited
// for.
func TestListOfHangingNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), name)
		synctest.Wait()
		for _, f := range c.nodes[1:] {
			f.set("look", fault{hang: true})
		}
		began := time.Now()
		page, err := c.admin().List(t.Context(), "", "", 0)
		wantErr(t, err, fenlock.ErrNoQuorum)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if len(page.Errors) != 2 || !strings.Contains(page.Errors[0].Err.Error(), "no answer in time") ||
			len(page.Locks) != 1 {
			t.Errorf("%+v", page)
		}
		wantErr(t, lock.Release(t.Context()))
	})
}

// endless is a node that never comes to the end of its list.
type endless struct{ shown }

func (e endless) Engine() any { return e }

func (e endless) List(ctx context.Context, _ string, yield func(node.Lease) bool) error {
	for i := 0; yield(node.Lease{Name: fmt.Sprint("x", i), Leased: true, Holder: 1, Label: "x"}); i++ {
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// A node that lists without end does not hide what the majority says.
func TestListWithoutEnd(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), name)
		synctest.Wait() // until the third node has the lease as well
		page, err := c.adminOf(func(i int) node.Node {
			if i == 1 {
				return endless{shown{faulty: c.nodes[i]}}
			}
			return shown{faulty: c.nodes[i]}
		}).List(t.Context(), name, "", 0)
		wantErr(t, err)
		if len(page.Errors) != 1 || page.Errors[0].Node != "b" ||
			!strings.Contains(page.Errors[0].Err.Error(), "no answer in time") {
			t.Errorf("%+v", page.Errors)
		}
		i := slices.IndexFunc(page.Locks, func(l admin.LockInfo) bool { return l.Name == name })
		if i < 0 || page.Locks[i].State != admin.Held {
			t.Errorf("%d locks, without the one that is held", len(page.Locks))
		}
		wantErr(t, lock.Release(t.Context()))
	})
}
