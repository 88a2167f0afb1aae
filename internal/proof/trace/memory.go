package trace

// Lost is a store that has voted, and has another memory from now on.
func (g *Group) Lost(n int, now *Node) error {
	if err := g.Do("lose", uint64(n), now.Register); err != nil {
		return err
	}
	now = void(now)
	if err := g.strays(uint64(n), now); err != nil {
		return err
	}
	return g.same("with another memory", uint64(n), now)
}

// Waited is a client that goes on as the quarantine of a store is over.
func (g *Group) Waited(n int) error {
	if !g.Out(n) || g.get(g.ready, uint64(n)) != 0 {
		return nil
	}
	return g.Do("wait", uint64(n))
}

// Reading is what a node has said for the rebuild of another: its register, and whether it was out
// then.
type Reading struct {
	Node     int
	Register uint64
	Out      bool
}

// Admitted is a node that votes from now on, by these readings of nodes that said that they vote.
func (g *Group) Admitted(n int, readings []Reading, now *Node) error {
	if !g.Out(n) {
		return nil
	}
	if err := g.Waited(n); err != nil {
		return err
	}
	for _, r := range readings {
		if err := g.read(uint64(n), r); err != nil {
			return err
		}
	}
	if now.Register > g.get(g.register, uint64(n)) {
		if err := g.Do("move", uint64(n), now.Register); err != nil {
			return err
		}
	}
	if err := g.Do("admit", uint64(n), Any); err != nil {
		return err
	}
	return g.same("when it is admitted", uint64(n), now)
}

// read takes a reading. It is a step of its own, and nothing but this depends on it: so it can be
// taken later, as it was.
func (g *Group) read(n uint64, r Reading) error {
	w := uint64(r.Node)
	had, out := g.get(g.register, w), g.get(g.out, w)
	g.put(g.register, r.Register, w)
	g.put(g.out, b2i(r.Out), w)
	err := g.Do("rebuild", n, w)
	g.put(g.register, had, w)
	g.put(g.out, out, w)
	return err
}
