package nodetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
)

// forgetful is a store with a mark of admission, whose parts can each be wrong. The zero wrongs are
// a sound one.
type forgetful struct {
	mu      sync.Mutex
	now     time.Duration
	life    int // what the store is now: another one after each loss
	made    time.Duration
	store   rule.Store
	mark    int // the life that was admitted; 0: none was
	noted   time.Duration
	notedOf int
	terms   admit.Terms
	empty   []string
	used    bool

	wrong wrongs
}

// wrongs is what an engine does wrongly. What it says to package admit is wrong, not that package.
type wrongs struct {
	facts func(s *forgetful, f *admit.Facts)
	// The mark is compared with what the client knows only; it is left by Note; leases outlive Mark;
	// registers are not raised; what the store is now is not compared by Mark; terms are not recorded.
	believesAnyMark, keepsMark, keepsLeases, raisesNothing, recordsNothing bool
	// The registers that are told of a store that is out, and whether it says that it is.
	registers func(s *forgetful, r *node.Registers)
	// It decides by itself.
	own func(g node.Group) bool
	// It does not say why it is out.
	mute bool
	// Terms are not compared by operations; a lease does not keep others out.
	anyTerms, twice bool
}

func newForgetful() *forgetful { return &forgetful{life: 1} }

func (s *forgetful) wait(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += d
}

func (s *forgetful) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.mark, s.noted, s.notedOf, s.terms, s.empty, s.used = rule.Store{}, 0, 0, 0, admit.Terms{}, nil, false
	s.life++
	s.made = s.now
}

// copy saves the store. What it returns makes another store of it, with that in it.
func (s *forgetful) copy() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases, registers, mark, terms, used := maps.Clone(s.store.Leases), maps.Clone(s.store.Registers), s.mark, s.terms,
		s.used
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.store, s.mark, s.terms, s.used = rule.Store{Leases: maps.Clone(leases),
			Registers: maps.Clone(registers)}, mark, terms, used
		s.noted, s.notedOf = 0, 0
		s.life++
	}
}

func (s *forgetful) votes() bool {
	return s.mark == s.life || s.wrong.believesAnyMark && s.mark != 0
}

func (s *forgetful) memory() string { return fmt.Sprint("life ", s.life) }

// forgetfulClient is one client of the store.
type forgetfulClient struct {
	s         *forgetful
	admission *admit.Admission
	own       func() bool
	knows     int // what it takes the store for: it looks anew when it was told that this is not so
	closed    bool
}

func (s *forgetful) open() node.Node {
	c := &forgetfulClient{s: s}
	c.admission = admit.New(c, c, 0)
	return c
}

func (c *forgetfulClient) String() string              { return "forgetful" }
func (c *forgetfulClient) Engine() any                 { return c }
func (c *forgetfulClient) Admission() *admit.Admission { return c.admission }
func (c *forgetfulClient) Close() error                { c.closed = true; c.admission.Close(); return nil }
func (c *forgetfulClient) fail(op string, err error) error {
	return fmt.Errorf("forgetful: %s: %w", op, err)
}
func (c *forgetfulClient) Join(g node.Group) error {
	if own := c.s.wrong.own; own != nil {
		c.own = func() bool { return own(g) }
	}
	return c.admission.Join(g)
}

// Do sends requests as a client does that has looked at the store once: with what it took that for.
func (c *forgetfulClient) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	for again := false; ; again = true {
		a, err := c.serve(r)
		if err != nil {
			return a, c.fail(r.Op.String(), err)
		}
		if a.Status != node.Rejoining {
			return a, nil
		}
		a.Absence, err = c.admission.Admit(ctx)
		if err != nil {
			return node.Answer{}, c.fail(r.Op.String(), err)
		}
		if a.Absence == (node.Absence{}) && again {
			a.Absence.Cause = node.Changed
		}
		if a.Absence != (node.Absence{}) {
			if c.s.wrong.mute {
				a.Absence = node.Absence{}
			}
			return a, nil
		}
	}
}

func (c *forgetfulClient) serve(r node.Request) (node.Answer, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closed {
		return node.Answer{}, errors.New("closed")
	}
	if !s.wrong.anyTerms {
		if err := c.admission.Check(s.terms); err != nil {
			return node.Answer{}, err
		}
	}
	if s.mark == 0 && c.own != nil {
		s.mu.Unlock()
		founds := c.own()
		s.mu.Lock()
		if founds {
			s.mark, s.terms, s.used = s.life, c.admission.Terms(), true
		}
	}
	knew := c.knows
	c.knows = s.life
	// A script that a client sends with what it knows compares that with the mark. It is carried
	// out on a store that is out as well; what it answers does not count then.
	stray := knew != s.life && knew != 0 && s.mark == knew && !s.votes()
	s.store.Out = !s.votes() && !stray
	if s.wrong.twice {
		s.store.Leases = nil
	}
	o := s.store.Begin(r.Name, s.now, nil)
	a, _ := rule.Serve(&o.Entry, nil, s.now, r)
	o.Commit()
	if stray {
		a = node.Answer{Status: node.Rejoining}
	}
	return a, nil
}

// Registers implements node.Rejoiner.
func (c *forgetfulClient) Registers(context.Context) (node.Registers, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r := node.Registers{Server: fmt.Sprintf("%p", s), Memory: s.memory(), Admitted: s.votes(), Empty: s.empty,
		MaxTTL: s.terms.MaxTTL, Members: s.terms.Members, Tokens: maps.Clone(s.store.Registers)}
	if s.wrong.registers != nil {
		s.wrong.registers(s, &r)
	}
	return r, nil
}

// Facts implements admit.Store.
func (c *forgetfulClient) Facts(context.Context) (admit.Facts, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	f := admit.Facts{Server: fmt.Sprintf("%p", s), Memory: s.memory(), Terms: s.terms, Votes: s.votes(),
		Marked:   s.mark != 0,
		Recorded: s.used, Cause: node.Unused, Untouched: true, Empty: s.empty, State: s.life}
	switch {
	case s.notedOf == s.life:
		f.Counted, f.Out = true, s.now-s.noted
	case s.mark == 0:
		f.Counted, f.Out = true, s.now-s.made
	}
	if s.used {
		f.Cause = node.Replaced
	}
	if s.wrong.facts != nil {
		s.wrong.facts(s, &f)
	}
	return f, nil
}

// Note implements admit.Store.
func (c *forgetfulClient) Note(_ context.Context, f admit.Facts) (bool, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != f.State || s.votes() {
		return false, nil
	}
	if s.notedOf != s.life {
		s.noted, s.notedOf = s.now, s.life
	}
	if !s.wrong.keepsMark {
		s.mark = 0
	}
	return true, nil
}

// Raise implements admit.Store.
func (c *forgetfulClient) Raise(_ context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wrong.raisesNothing {
		s.store.Raise(tokens)
	}
	return nil
}

// Mark implements admit.Store.
func (c *forgetfulClient) Mark(_ context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != f.State || s.votes() || s.terms.Check(own) != nil {
		return false, nil
	}
	s.mark, s.empty, s.used = s.life, empty, true
	if !s.wrong.recordsNothing {
		s.terms = admit.Terms{MaxTTL: cmp.Or(s.terms.MaxTTL, own.MaxTTL), Members: cmp.Or(s.terms.Members, own.Members)}
	}
	if !s.wrong.keepsLeases {
		s.store.Leases = nil
	}
	return true, nil
}

// asIf has NewServers believed by a rule of the engine's own, which looks at some of what it
// should.
func asIf(isNew func(r *node.Registers) bool) func(w *wrongs) {
	return func(w *wrongs) {
		w.own = func(g node.Group) bool {
			if !g.New {
				return false
			}
			for _, n := range g.Nodes[1:] {
				r, err := n.Engine().(node.Rejoiner).Registers(context.Background())
				if err != nil && !isNew(nil) || err == nil && !isNew(&r) {
					return false
				}
			}
			return true
		}
	}
}

// forgetfulMutants are engines that a scene has to catch.
var forgetfulMutants = []struct {
	name, caught string
	change       func(w *wrongs)
}{
	{"sound", "", func(*wrongs) {}},
	{"the quarantine is over early", "WipedStoreWaitsForTheLongestLease", func(w *wrongs) {
		w.facts = func(_ *forgetful, f *admit.Facts) { f.Out += shortLease / 2 }
	}},
	{"registers are not raised", "RegistersComeFromTheOthers", func(w *wrongs) { w.raisesNothing = true }},
	{"a space ends the name of a memory", "LostMemoriesAreListed", func(w *wrongs) {
		w.registers = func(_ *forgetful, r *node.Registers) { r.Empty = strings.Fields(strings.Join(r.Empty, " ")) }
	}},
	{"a store that is out votes at once", "SilentNodesAreWaitedFor", func(w *wrongs) {
		w.own = func(node.Group) bool { return true }
	}},
	{"it is never new", "NewIsBelievedWhereAllAreNew", func(w *wrongs) {
		w.facts = func(_ *forgetful, f *admit.Facts) { f.Recorded = true }
	}},
	{"new beside a node that is silent", "NewIsNotBelievedBesideASilentNode", asIf(func(r *node.Registers) bool {
		return r == nil || sameNew(r)
	})},
	{"new beside recorded terms", "NewIsNotBelievedBesideRecordedTerms", asIf(func(r *node.Registers) bool {
		return r != nil && !r.Admitted && len(r.Tokens) == 0 && r.Members == ""
	})},
	{"new beside recorded members", "NewIsNotBelievedBesideRecordedMembers", asIf(func(r *node.Registers) bool {
		return r != nil && !r.Admitted && len(r.Tokens) == 0 && r.MaxTTL == 0
	})},
	{"new beside a register", "NewIsNotBelievedBesideARegister", asIf(func(r *node.Registers) bool {
		return r != nil && !r.Admitted && r.MaxTTL == 0 && r.Members == ""
	})},
	{"new beside an admitted node", "NewIsNotBelievedBesideAnAdmittedNode",
		asIf(func(r *node.Registers) bool { return r != nil })},
	{"new without asking", "NewIsNotBelievedBesideASilentNode", asIf(func(*node.Registers) bool { return true })},
	{"used, and says that it is new", "NewIsNotBelievedOnAUsedStore", func(w *wrongs) {
		w.anyTerms = true // by which the client would know
		w.facts = func(s *forgetful, f *admit.Facts) {
			if s.mark != s.life {
				f.Recorded, f.Marked, f.Terms, f.Counted = false, false, admit.Terms{}, true
			}
		}
	}},
	{"terms are not compared", "AnotherMaxTTLIsRefused", func(w *wrongs) { w.anyTerms = true }},
	{"terms are not compared", "AnotherGroupIsRefused", func(w *wrongs) { w.anyTerms = true }},
	{"terms are not recorded", "AnotherGroupIsRefused", func(w *wrongs) { w.recordsNothing = true }},
	{"the others' terms are not compared", "OthersOfAnotherGroupAreRefused", func(w *wrongs) {
		w.own = func(g node.Group) bool { time.Sleep(time.Second); return true }
	}},
	{"any mark is believed", "RestoredStoreIsNotBelieved", func(w *wrongs) { w.believesAnyMark = true }},
	{"it counts from before the mark was removed", "LeasesOfBeforeDoNotCount", func(w *wrongs) {
		w.keepsMark, w.keepsLeases = true, true
		w.facts = func(s *forgetful, f *admit.Facts) {
			if s.mark != s.life { // it says that there is none, or admit would have it removed
				f.Marked = false
				if f.Counted = true; s.notedOf != s.life {
					f.Out = s.now
				}
			}
		}
	}},
	{"an out store says that it votes", "OutStoreSaysSo", func(w *wrongs) {
		w.registers = func(_ *forgetful, r *node.Registers) { r.Admitted = true }
	}},
	{"a memory keeps its name", "OutStoreSaysSo", func(w *wrongs) {
		w.registers = func(_ *forgetful, r *node.Registers) { r.Memory = "memory" }
	}},
	{"it does not say why it is out", "WipedStoreWaitsForTheLongestLease", func(w *wrongs) { w.mute = true }},
	{"many get the name", "OneOfManyAdmits", func(w *wrongs) {
		w.twice = true
	}},
}

const shortLease = time.Second

func sameNew(r *node.Registers) bool {
	return !r.Admitted && r.MaxTTL == 0 && r.Members == "" && len(r.Tokens) == 0
}
