package trace

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/proof/model"
)

// naive has the value of each symbol for each tuple, and evaluates formulas by trying every value.
type naive struct {
	m     *model.Model
	size  map[string]int
	value map[at]uint64
}

// at is a symbol and its arguments.
type at struct {
	s    *model.Symbol
	args [maxArgs]uint64
}

func place(s *model.Symbol, args []uint64) at {
	k := at{s: s}
	copy(k.args[:], args)
	return k
}

func (v *naive) tuples(sorts []*model.Sort, each func(args []uint64)) {
	args := make([]uint64, len(sorts))
	var next func(i int)
	next = func(i int) {
		if i == len(sorts) {
			each(args)
			return
		}
		for x := range v.size[sorts[i].Name] {
			args[i] = uint64(x)
			next(i + 1)
		}
	}
	next(0)
}

func (v *naive) eval(e *model.Expr, env map[string]uint64) uint64 {
	switch e.Op {
	case model.OpVar:
		return env[e.Name]
	case model.OpTrue:
		return 1
	case model.OpFalse:
		return 0
	case model.OpNot:
		return 1 - v.eval(e.Args[0], env)
	case model.OpAnd:
		for _, x := range e.Args {
			if v.eval(x, env) == 0 {
				return 0
			}
		}
		return 1
	case model.OpOr:
		for _, x := range e.Args {
			if v.eval(x, env) == 1 {
				return 1
			}
		}
		return 0
	case model.OpImply:
		return max(1-v.eval(e.Args[0], env), v.eval(e.Args[1], env))
	case model.OpEqual:
		return b2i(v.eval(e.Args[0], env) == v.eval(e.Args[1], env))
	case model.OpIte:
		return v.eval(e.Args[2-v.eval(e.Args[0], env)], env)
	case model.OpForall, model.OpExists:
		inner := maps.Clone(env)
		var sorts []*model.Sort
		for _, x := range e.Vars {
			sorts = append(sorts, x.Sort)
		}
		all, any := uint64(1), uint64(0)
		v.tuples(sorts, func(args []uint64) {
			for i, x := range e.Vars {
				inner[x.Name] = args[i]
			}
			is := v.eval(e.Args[0], inner)
			all, any = min(all, is), max(any, is)
		})
		if e.Op == model.OpForall {
			return all
		}
		return any
	}
	var args []uint64
	for _, x := range e.Args {
		args = append(args, v.eval(x, env))
	}
	for _, s := range v.m.Sorts {
		switch e.Symbol {
		case s.Order:
			return b2i(args[0] <= args[1])
		case s.Least:
			return 0
		case s.Member:
			return args[1] >> args[0] & 1
		}
	}
	return v.value[place(e.Symbol, args)]
}

// step returns whether an action can be taken, and takes it.
func (v *naive) step(a *model.Action, args []uint64) bool {
	env := map[string]uint64{}
	for i, p := range a.Params {
		env[p.Name] = args[i]
	}
	for _, g := range a.Guard {
		if v.eval(g, env) == 0 {
			return false
		}
	}
	next := map[at]uint64{}
	for _, u := range a.Updates {
		v.tuples(u.Symbol.Args, func(at []uint64) {
			for i, x := range u.Vars {
				env[x.Name] = at[i]
			}
			next[place(u.Symbol, at)] = v.eval(u.Value, env)
		})
	}
	for k, x := range next {
		v.value[k] = x
	}
	return true
}

// TestAgainstANaiveOne takes random steps of the models, in states of both kinds and naively.
func TestAgainstANaiveOne(t *testing.T) {
	for _, file := range []string{"tokens.model", "shared.model", "admission.model"} {
		t.Run(file, func(t *testing.T) {
			mc := Of(file)
			m := mc.Model
			t.Logf("only for the proof: %s", strings.Join(mc.Ignored(), " "))
			size := map[string]int{"node": 3, "holder": 3, "round": 3, "number": 4, "kind": 1, "list": 2, "few": 8, "quorum": 8,
				"readers": 8}
			taken := map[string]int{}
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 1))
				v := &naive{m: m, size: size, value: map[at]uint64{}}
				frame := mc.NewFrame(size)
				states := []State{mc.NewOpen(), Small{frame, make([]byte, frame.Bytes)}}
				fixed := func(name string, x uint64, args ...uint64) {
					if s := m.Symbol(name); s != nil {
						v.value[place(s, args)] = x
						for _, st := range states {
							mc.NewGroup(st, 3).Fix(name, x, args...)
						}
					}
				}
				for i := range uint64(3) {
					fixed("owner", i%2, i)
					fixed("shares", rng.Uint64N(2), i)
					fixed("reader", rng.Uint64N(2), i)
					fixed("on", 1, i, i%2)
					// A register of 0 is reached.
					for _, s := range m.Symbols {
						if s.Cut != nil && s == s.Cut.Reached {
							if len(s.Args) == 1 {
								v.value[place(s, []uint64{0})] = 1
							}
							if len(s.Args) == 2 {
								v.value[place(s, []uint64{i, 0})] = 1
							}
							for h := range uint64(3) {
								if len(s.Args) == 3 {
									v.value[place(s, []uint64{i, h, 0})] = 1
								}
							}
						}
					}
				}
				for range 3000 {
					a := m.Actions[rng.IntN(len(m.Actions))]
					switch a.Name {
					// they end what others have begun
					case "vanish", "move", "force", "lose", "wait", "stray", "stray-first", "forget":
						if rng.IntN(40) > 0 {
							continue
						}
					}
					var args []uint64
					for _, p := range a.Params {
						if p.Sort.Member != nil {
							args = append(args, []uint64{3, 5, 6}[rng.IntN(3)])
						} else {
							args = append(args, rng.Uint64N(uint64(size[p.Sort.Name])))
						}
					}
					want := v.step(a, args)
					for _, s := range states {
						why := mc.Action(a.Name).Step(s, 3, args...)
						if (why == "") != want {
							t.Fatalf("seed %d: %s %v: %q; naively %v", seed, a.Name, args, why, want)
						}
						for _, sym := range mc.symbols {
							if !want {
								break
							}
							v.tuples(sym.Args, func(at []uint64) {
								var k key
								copy(k[:], at[:sym.keys])
								is := s.get(sym, k)
								switch {
								case sym.kind == above:
									is = b2i(is != 0 && is-1 <= at[sym.keys])
								case sym.kind == cut:
									is = b2i(at[sym.keys] <= is)
								}
								if is != v.value[place(sym.Symbol, at)] {
									t.Fatalf("seed %d: after %s %v, %s %v is %d; naively %d", seed, a.Name, args, sym.Name, at, is,
										v.value[place(sym.Symbol, at)])
								}
							})
						}
					}
					if want {
						taken[a.Name]++
					}
				}
			}
			for _, a := range m.Actions {
				if taken[a.Name] == 0 {
					t.Logf("%s was never taken", a.Name)
				}
			}
			if len(taken) < len(m.Actions)*3/4 {
				t.Errorf("only %d of %d actions were taken: %v", len(taken), len(m.Actions), taken)
			}
		})
	}
}

// TestRefusals says what a refusal tells.
func TestRefusals(t *testing.T) {
	mc := Of("tokens.model")
	g := mc.NewGroup(mc.NewOpen(), 3)
	node := func(register uint64, leases ...Lease) *Node { return &Node{Register: register, Leases: leases} }
	for _, err := range []error{
		g.Begin(7),
		g.Serve(&Served{Op: Acquire, Holder: 7, Granted: true, Counts: true, Answer: 4, Before: node(3),
			After: node(4, Lease{7, 4})}),
		g.Serve(&Served{Node: 1, Op: Acquire, Holder: 7, Granted: true, Counts: true, Answer: 4, Before: node(0),
			After: node(4, Lease{7, 4})}),
		g.Told(7, &Held{}, &Held{Holding: true, Token: 4, Mark: 4}, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{g.Begin(7), "(begin A7): the guard is false: (not (begun H))"},
		{g.Serve(&Served{Op: Acquire, Holder: 7, Granted: true, Counts: true, Answer: 4, Before: node(4),
			After: node(4, Lease{7, 4})}), "(acquire n1 A7 4): the guard is false: (not (reached n r))"},
		{g.Serve(&Served{Node: 2, Op: Confirm, Holder: 7, Token: 9, Granted: true, Counts: true, Before: node(0),
			After: node(9)}), "(confirm n3 A7 9): the guard is false: (leased n H)"},
		{g.Serve(&Served{Node: 1, Op: Confirm, Holder: 7, Token: 9, Granted: true, Counts: true, Before: node(4, Lease{7, 4}),
			After: node(4, Lease{7, 4})}), "its register is 4, in the model 9"},
		{g.Told(7, &Held{Holding: true, Mark: 4}, &Held{Holding: true, Mark: 5}, 0),
			"(raise A7 _ 4 5): the guard is false for every quorum: only 0 of 2 nodes"},
		{g.Serve(&Served{Op: Extend, Holder: 7, Granted: true, Counts: true, Before: node(4), After: node(4)}),
			"no extension was started"},
		{g.Do("dance"), "the model has no such action"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || !strings.Contains(c.err.Error(), "(finish A7 _ 4)") {
			t.Errorf("%v; want %s, and the steps before", c.err, c.want)
		}
	}
}

// TestWhatCannotBeEvaluated has a model say so that this does not know.
func TestWhatCannotBeEvaluated(t *testing.T) {
	const head = `(sort node n) (sort holder A) (sort number r x) (order le number zero) (rel has node holder) (rel all holder number)
		(init (not (has n A)) (not (all A r))) (promise P (=> (has n A) (has n A))) `
	for _, text := range []string{
		head + `(action spread (n A) (if (all A zero)) (add (has n *A1)) (add (all A *r)))`,
		head + `(action many (n) (if (forall (A r) (=> (has n A) (all A r)))))`,
	} {
		m, err := model.Parse("test", text)
		if err != nil {
			t.Logf("not even parsed: %v", err)
			continue
		}
		if _, err := New(m); err == nil {
			t.Errorf("evaluated: %s", text)
		}
	}
}
