package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
)

// The change of docs/groups.md: a name goes from group a to group b. Processes of three kinds
// play it, of which the first and the third never run at the same time.
var (
	oldOnly = []string{"a", ""}
	both    = []string{"a b", "a"}
	newOnly = []string{"a b", ""}
)

// tenure is what a process has of a lock. Release gives it back; kill ends the process instead.
type tenure struct {
	ctx     context.Context
	token   fence.Token
	release func()
	shared  bool
}

// taker takes the lock of a name, as a process of one kind does, or does not get it before ctx is
// done.
type taker func(ctx context.Context, g *groups.Groups, name string) (*tenure, error)

// honest is what processes do.
func honest(ctx context.Context, g *groups.Groups, name string) (*tenure, error) {
	k, err := g.Acquire(ctx, name)
	return tenureOf(k, false, err)
}

// withOthers is what processes do that share the name.
func withOthers(ctx context.Context, g *groups.Groups, name string) (*tenure, error) {
	k, err := g.Acquire(ctx, name, fenlock.WithShared())
	return tenureOf(k, true, err)
}

func tenureOf(k *fenlock.Lock, shared bool, err error) (*tenure, error) {
	if err != nil {
		return nil, err
	}
	return &tenure{k.Context(), k.Token(), func() { k.Release(context.Background()) }, shared}, nil
}

// play is one run. It notes whether two held the name at a time, and tokens that did not grow.
type play struct {
	several
	t      *testing.T
	name   string
	random *rand.Rand

	mu       sync.Mutex
	holders  int // exclusive holders
	sharers  int
	last     fence.Token // of those who had it alone
	read     fence.Token // the largest of those who shared it
	tenures  int
	together int // two holders
	shrunk   int // tokens
}

// processes has some processes of two kinds lock the name for a while, at the same time. Clocks
// are far apart, nodes are slow, and now and then one of each group does not answer. Some
// processes are killed while they hold.
func (p *play) processes(kinds ...kind) {
	stop := make(chan struct{})
	var all, faults sync.WaitGroup
	fate := rand.New(rand.NewPCG(p.random.Uint64(), 0))
	faults.Go(func() {
		r := fate
		for {
			for _, id := range []string{"a", "b"} {
				nodes := p.several[id].nodes
				for _, n := range nodes {
					n.set(allOps, fault{request: time.Duration(r.IntN(10)) * time.Millisecond,
						reply: time.Duration(r.IntN(10)) * time.Millisecond})
				}
				if r.IntN(3) == 0 {
					nodes[r.IntN(3)].set(allOps, down)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(r.IntN(1000)) * time.Millisecond):
			}
		}
	})
	for _, k := range kinds {
		for range 2 {
			r := rand.New(rand.NewPCG(p.random.Uint64(), 0))
			all.Go(func() { p.process(k, r) })
		}
	}
	all.Wait()
	close(stop)
	faults.Wait()
}

// kind is a kind of process: its lists, and how it takes locks.
type kind struct {
	lists []string
	take  taker
}

// ahead are wall clocks that are far ahead, one beyond what a client proposes.
var ahead = []fence.Token{0, future, future + 100, future + 200, 1 << 52}

func (p *play) process(k kind, r *rand.Rand) {
	start := func() *groups.Groups {
		g := p.several.process(p.t, k.lists[0], k.lists[1])
		for _, id := range []string{"a", "b"} { // its clock: any it meets is as good
			if group, old := g.Of(p.name); r.IntN(2) == 0 {
				for _, of := range []groups.Group{group, old} {
					if of.ID == id {
						fenlock.SetSeen(of.Locker, ahead[r.IntN(len(ahead))])
					}
				}
			}
		}
		return g
	}
	g := start()
	for range 6 {
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		held, err := k.take(ctx, g, p.name)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				p.t.Error(err)
			}
			continue
		}
		p.mu.Lock()
		who := &p.holders
		if held.shared {
			who = &p.sharers
		}
		if *who++; p.holders > 1 || p.holders > 0 && p.sharers > 0 {
			p.together++
		}
		if held.token <= p.last || !held.shared && held.token <= p.read {
			p.shrunk++
		}
		if held.shared {
			p.read = max(p.read, held.token)
		} else {
			p.last = held.token
		}
		p.tenures++
		p.mu.Unlock()
		select {
		case <-held.ctx.Done():
		case <-time.After(time.Duration(r.IntN(300)) * time.Millisecond):
		}
		p.mu.Lock()
		*who--
		p.mu.Unlock()
		if r.IntN(6) == 0 { // it is killed, and another one started
			g.Close()
			g = start()
		} else {
			held.release()
		}
	}
	g.Close()
}

// change plays the whole change, with other processes in the middle than those that ship, for
// example.
func change(t *testing.T, seed uint64, steps func(p *play)) (p *play) {
	severally(t, "a b", func(t *testing.T, s several) {
		p = &play{several: s, t: t, random: rand.New(rand.NewPCG(seed, 0))}
		probe := s.process(t, both[0], both[1])
		p.name = onThat(t, probe, "b", "a")
		steps(p)
	})
	return p
}

// asDocumented is the procedure.
func asDocumented(middle taker) func(p *play) {
	return func(p *play) {
		p.processes(kind{oldOnly, honest})
		p.processes(kind{oldOnly, honest}, kind{both, middle})
		p.processes(kind{both, middle}) // RaiseTokens is for other names: this one is locked by all
		p.processes(kind{both, middle}, kind{newOnly, honest})
		p.processes(kind{newOnly, honest})
	}
}

// There and back again, and no two hold the name, and each token is larger than the one before.
// Where some share the name, a process that has it alone has a larger token than all before.
func TestGroupsChange(t *testing.T) {
	for what, steps := range map[string]func(p *play){
		"one holder": func(p *play) {
			asDocumented(honest)(p)
			p.processes(kind{newOnly, honest}, kind{both, honest})
			p.processes(kind{both, honest})
			p.processes(kind{both, honest}, kind{oldOnly, honest})
		},
		"sharers": func(p *play) {
			old, in, now := kind{oldOnly, honest}, kind{both, honest}, kind{newOnly, honest}
			oldShared, inShared, nowShared := kind{oldOnly, withOthers}, kind{both, withOthers}, kind{newOnly, withOthers}
			p.processes(old, oldShared, in, inShared)
			p.processes(in, inShared)
			p.processes(in, inShared, now, nowShared)
			p.processes(in, inShared)
			p.processes(old, oldShared, in, inShared)
		},
	} {
		for seed := range uint64(4) {
			if p := change(t, seed, steps); p.together > 0 || p.shrunk > 0 || p.tenures < 80 {
				t.Errorf("%s, seed %d: %d tenures, %d times two at a time, %d times a token that was not larger", what, seed,
					p.tenures, p.together, p.shrunk)
			}
		}
	}
}

// What looks as good as the procedure, and is not.
func TestGroupsChangeOtherwise(t *testing.T) {
	// lockers are those of a process in the middle.
	lockers := func(g *groups.Groups, name string) (old, now *fenlock.Locker) {
		group, was := g.Of(name)
		return was.Locker, group.Locker
	}
	// two takes both locks, and has something done with them.
	two := func(observe bool, with func(ctx context.Context, old, now *fenlock.Lock) (fence.Token, error)) taker {
		return func(ctx context.Context, g *groups.Groups, name string) (*tenure, error) {
			first, second := lockers(g, name)
			old, err := first.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			if observe {
				fenlock.SetSeen(second, old.Token())
			}
			now, err := second.Acquire(ctx, name)
			if err != nil {
				old.Release(ctx)
				return nil, err
			}
			token, err := with(ctx, old, now)
			release := func() {
				old.Release(context.Background())
				now.Release(context.Background())
			}
			if err != nil {
				release()
				return nil, err
			}
			ended, cancel := context.WithCancel(old.Context())
			context.AfterFunc(now.Context(), cancel)
			return &tenure{ended, token, release, false}, nil
		}
	}
	only := func(which int) taker {
		return func(ctx context.Context, g *groups.Groups, name string) (*tenure, error) {
			old, now := lockers(g, name)
			k, err := []*fenlock.Locker{old, now}[which].Acquire(ctx, name)
			return tenureOf(k, false, err)
		}
	}
	for what, test := range map[string]struct {
		steps  func(p *play)
		safe   bool // tokens alone are wrong
		reason string
	}{
		"from one list to the other, at once": {func(p *play) {
			p.processes(kind{oldOnly, honest}, kind{newOnly, honest})
		}, false, ""},
		"the old lock alone in between": {asDocumented(only(0)), false, ""},
		"the new lock alone in between": {asDocumented(only(1)), false, ""},
		"the old lock's token": {asDocumented(two(true, func(_ context.Context, old, _ *fenlock.Lock) (fence.Token, error) {
			return old.Token(), nil
		})), true, "a holder of the new list had a larger one"},
		"the new lock's token, and nothing raised": {asDocumented(two(true,
			func(_ context.Context, _, now *fenlock.Lock) (fence.Token, error) {
				return now.Token(), nil
			})), true, "a holder of the old list has a smaller one then"},
		"the larger of the two tokens, and nothing raised": {asDocumented(two(true,
			func(_ context.Context, old, now *fenlock.Lock) (fence.Token, error) {
				return max(old.Token(), now.Token()), nil
			})), true, "the same"},
		"the new lock's token, which does not know of the old one's": {asDocumented(two(false,
			func(ctx context.Context, old, now *fenlock.Lock) (fence.Token, error) {
				return now.Token(), fenlock.Raise(ctx, old, now.Token())
			})), true, "a holder of the old list had a larger one"},
	} {
		t.Run(what, func(t *testing.T) {
			for seed := range uint64(20) {
				p := change(t, seed, test.steps)
				if test.safe && p.together > 0 {
					t.Fatalf("seed %d: two hold it, which is more than was to be shown", seed)
				}
				if test.safe && p.shrunk > 0 || p.together > 0 {
					t.Logf("seed %d: of %d tenures, %d times two at a time, %d times a token that was not larger", seed, p.tenures,
						p.together, p.shrunk)
					return
				}
			}
			t.Error("nothing is wrong with it")
		})
	}
}

// Names that are not locked during a change have their tokens raised too, on both groups; without
// that step, they do not. A group comes, and one goes.
func TestRaiseTokensIsForNamesThatNobodyLocks(t *testing.T) {
	const was, is = "a c", "a d"
	token := func(t *testing.T, g *groups.Groups, name string) fence.Token {
		t.Helper()
		k, err := g.Acquire(t.Context(), name)
		wantErr(t, err)
		wantErr(t, k.Release(t.Context()))
		return k.Token()
	}
	for _, raised := range []bool{true, false} {
		for _, move := range []string{"a d", "c a", "c d"} {
			severally(t, "a c d", func(t *testing.T, s several) {
				before, during, after := s.process(t, was, ""), s.process(t, is, was), s.process(t, is, "")
				from, to, _ := strings.Cut(move, " ")
				name := onThat(t, during, to, from)
				group, _ := before.Of(name)
				fenlock.SetSeen(group.Locker, future)
				last := token(t, before, name)
				if raised {
					wantErr(t, during.RaiseTokens(t.Context()))
				}
				next := token(t, after, name)
				if next > last != raised {
					t.Errorf("from %q to %q, raised: %v: token %d after %d", from, to, raised, next, last)
				}
				if again := token(t, s.process(t, was, ""), name); raised && again <= last {
					t.Errorf("back from %q to %q: token %d after %d", to, from, again, last)
				}
			})
		}
	}
}

// It says of which groups, and waits for nodes as Acquire does.
func TestRaiseTokensFails(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		_, during, after, _ := moving(t, s)
		wantErr(t, after.RaiseTokens(t.Context())) // nothing changes there
		if n := s["a"].requests(allOps) + s["b"].requests(allOps); n > 0 {
			t.Errorf("%d requests", n)
		}
		s["b"].set(0, 2, allOps, down)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := during.RaiseTokens(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		if !strings.Contains(fmt.Sprint(err), `"a" and "b"`) {
			t.Error(err)
		}
	})
}
