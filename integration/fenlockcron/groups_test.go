package fenlockcron_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/node/memnode"
)

// Hosts on two groups of nodes, in the middle of a change from one: some know the old list, some
// both. Each of ten jobs runs once a minute for all of them, with growing tokens, and hears of it
// when either of its groups fails.
func TestGroupsWhileTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := map[string]*memnode.Node{"old": memnode.New("old"), "new": memnode.New("new")}
		process := func(label string, now, before []string) *groups.Groups {
			lockers := map[string]*fenlock.Locker{}
			list := func(ids []string) (all []groups.Group) {
				for _, id := range ids {
					if lockers[id] == nil {
						lockers[id] = host(t, label, nodes[id])
					}
					all = append(all, groups.Group{ID: id, Locker: lockers[id]})
				}
				return all
			}
			g, err := groups.New(groups.Config{Groups: list(now), Old: list(before)})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		both := []string{"old", "new"}
		changing := process("b", both, both[:1])
		var l journal
		var mu sync.Mutex
		tokens, lost := map[string][]fence.Token{}, map[string]error{}
		crashes := false
		for i, g := range []*groups.Groups{process("a", both[:1], nil), changing, process("c", both, both[:1])} {
			j := jobs(t, g, &l)
			for n := range 10 {
				name := fmt.Sprint("report ", n)
				made, err := j.Job(name, func(ctx context.Context, token fence.Token) error {
					mu.Lock()
					tokens[name] = append(tokens[name], token)
					crash := crashes
					mu.Unlock()
					if crash {
						<-ctx.Done()
						mu.Lock()
						defer mu.Unlock()
						lost[name] = context.Cause(ctx)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				start(t, made, time.Duration((i+n)%3)*time.Second) // each host is first for some
			}
		}
		moved := 0
		for n := range 10 {
			if _, old := changing.Of(fmt.Sprint("report ", n)); old.ID != "" {
				moved++
			}
		}
		if moved == 0 || moved == 10 {
			t.Fatalf("%d of 10 names move: the test needs others", moved)
		}
		pass(5*time.Minute + 30*time.Second)
		for n := range 10 {
			if all := tokens[fmt.Sprint("report ", n)]; len(all) != 5 || !slices.IsSorted(all) || len(slices.Compact(all)) != 5 {
				t.Errorf("report %d in five minutes: %v", n, all)
			}
		}
		if len(l.failed) != 0 {
			t.Errorf("%v", l.failed)
		}
		mu.Lock()
		crashes = true
		mu.Unlock()
		pass(35 * time.Second) // in the next runs
		nodes["old"].Crash()   // on which all names still are
		pass(15 * time.Second)
		if len(lost) != 10 {
			t.Errorf("%d of 10 jobs have heard of the loss", len(lost))
		}
		for name, err := range lost {
			if !errors.Is(err, fenlock.ErrLost) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
