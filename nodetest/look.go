package nodetest

import (
	"fmt"
	"strings"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// An operator wants to know who has it and for how long, and, before a
// force release, the register.
func inspectShowsLeaseAndRegister(s *suite) {
	s.leased("a", "", false, 0) // never used
	r := s.takes("a", "host/42", 7)
	s.leased("a", "host/42", true, 7)
	s.leased("a", "host/42", true, 7) // looking changes nothing
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	s.leased("a", "", false, 7)
}

// Also more of them than an engine reads at a time.
func listShowsEveryLeaseOnce(s *suite) {
	if got := s.list(); len(got) != 0 {
		s.Fatalf("an empty node lists %v", got)
	}
	const n = 300
	for i := range n {
		s.takes(fmt.Sprintf("name %d", i), fmt.Sprintf("label %d", i), fence.Token(1000+i))
	}
	gone := s.takes("released", "", 0)
	s.want(node.Granted)(s.node.Release(s.ctx, gone))
	s.want(node.Granted)(s.node.Acquire(s.ctx, lasting(request("expired", "", 0), short)))
	s.outwait()

	got := s.list()
	for i := range n {
		name := fmt.Sprintf("name %d", i)
		l, ok := got[name]
		if !ok {
			s.Fatalf("%q is leased, and not listed", name)
		}
		s.plausible(l.Remaining)
		if l.Label != fmt.Sprintf("label %d", i) || l.Register < fence.Token(1000+i) {
			s.Fatalf("listed as %+v", l)
		}
	}
	if len(got) != n {
		s.Fatalf("%d leases listed; want %d (neither the released nor the expired one)", len(got), n)
	}

	calls := 0
	if err := s.other.List(s.ctx, "", func(node.Lease) bool { calls++; return calls < 3 }); err != nil || calls != 3 {
		s.Fatalf("yield returned false at its third call, and was called %d times; error %v", calls, err)
	}
}

// list returns what the second client lists, by name: nothing if it is no node.Admin.
func (s *suite) list() map[string]node.Lease {
	s.Helper()
	all := map[string]node.Lease{}
	if !s.other.admin() {
		return all
	}
	err := s.other.List(s.ctx, "", func(l node.Lease) bool {
		if _, twice := all[l.Name]; twice {
			s.Errorf("%q is listed twice", l.Name)
		}
		all[l.Name] = l
		return true
	})
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// The label is for people, and comes through whatever is in it. The identity
// before it is a secret (every test of this suite looks for it in every result).
// A lease of another Redlock client is opaque: all of it may be secret.
func labelsAreShownIdentitiesAreNot(s *suite) {
	type lease struct {
		holder node.Holder
		label  string
	}
	var all []lease
	for _, label := range []string{"", "host/42", "a:b:c", `"quoted" 'twice' \`, "tab\tand\nline", "grün 锁", "%d %s",
		strings.Repeat("x", 200)} {
		all = append(all, lease{node.Holder(identity() + ":" + label), label})
	}
	for _, foreign := range []node.Holder{"opaque-random-value", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY", "secret:part",
		"0123456789abcdef0123456789abcdeX:no label"} {
		all = append(all, lease{foreign, ""})
	}
	for i, want := range all {
		r := request(fmt.Sprint("name ", i), "", 7)
		r.Holder = want.holder
		s.want(node.Granted)(s.node.Acquire(s.ctx, r))
		if l := s.inspect(s.other, r.Name); l.Label != want.label || l.Remaining == 0 {
			s.Errorf("inspected %+v; want label %q", l, want.label)
		}
		if a := s.want(node.Held)(s.other.Acquire(s.ctx, request(r.Name, "rival", 0))); a.HeldBy != want.label {
			s.Errorf("held by %q; want %q", a.HeldBy, want.label)
		}
		if got := s.list()[r.Name]; s.node.admin() && got.Label != want.label {
			s.Errorf("listed label %q; want %q", got.Label, want.label)
		}
		s.want(node.Granted)(s.node.Release(s.ctx, r))
	}
}

// names are what some program locks: 1 to 512 bytes, any bytes. Pairs that a careless engine takes
// for one stand next to each other.
var names = []string{
	"a", "A", "a ", " a", "a\x00", "a\n", "ä", "a\u0308", "Ä", "ａ",
	"0", "00", "1", "01", "1.0", "1e0", "true", "null", "NULL", "nil",
	" ", "\t", "\x00", "\xff", "\xff\xfe", "\xc3\x28",
	"/", "//", "/a", "a/", "a/b", "a//b", "../a", ".", "..",
	"orders/42", "orders:42", "{orders}42", "{orders", "orders}",
	"'", "''", `"`, "`", `\`, `\\`, "';--", "$1", "?", "%", "%%", "%41", "_", "*", "[a]", "a*", "#", "+",
	"锁", "🔒", "замо́к", "x" + strings.Repeat("y", 510), strings.Repeat("x", 511), strings.Repeat("x", 512),
	strings.Repeat("x", 511) + "y",
}

// Two names are two locks if they differ in one byte. An engine that folds case, trims spaces or
// normalises Unicode makes strangers wait for each other. An engine that splits or expands a name
// lets two hold what they think is one.
func namesNeverMix(s *suite) {
	var all []node.Request
	for i, name := range names {
		all = append(all, s.takes(name, fmt.Sprint(i), 0))
	}
	listed := s.list()
	if s.node.admin() && len(listed) != len(names) {
		s.Errorf("%d names listed; want %d", len(listed), len(names))
	}
	for i, name := range names {
		a := s.want(node.Held)(s.other.Acquire(s.ctx, request(name, "rival", 0)))
		l := s.inspect(s.other, name)
		if l.Name != name || l.Label != fmt.Sprint(i) || a.HeldBy != l.Label ||
			s.node.admin() && listed[name].Label != l.Label {
			s.Errorf("%q: held by %q, inspected %+v, listed %+v; want label %d", name, a.HeldBy, l, listed[name], i)
		}
	}
	// Releasing one leaves its look-alikes.
	s.want(node.Granted)(s.node.Release(s.ctx, all[0]))
	if got := s.list(); s.node.admin() && (len(got) != len(names)-1 || got[names[0]].Name != "") {
		s.Errorf("after the release of one of %d names: %d listed", len(names), len(got))
	}
	for i, name := range names[1:] {
		if a := s.want(node.Held)(s.other.Acquire(s.ctx, request(name, "rival", 0))); a.HeldBy != fmt.Sprint(i+1) {
			s.Errorf("%q after the release of %q: held by %q; want label %d", name, names[0], a.HeldBy, i+1)
		}
	}
}

// A name that looks like an engine's own bookkeeping is a name like any other. It neither changes
// the registers nor vanishes from the list (sesamecare/redlock #6).
func namesAreNotBookkeeping(s *suite) {
	looks := []string{
		"registers", "fenlock", "fenlock:", "fenlock-registers", "fenlock-registers:", "fenlock:registers",
		"fenlock:registers:0",
		"fenlock-lease:a", "fenlock:lease:a", "fenlock-waiters:a", "fenlock:queue:a", "fenlock:wake:a", "fenlock:meta",
		"fenlock:notice",
		"leases", "meta", "fenlock_leases", "fenlock_registers", "fenlock_meta", "pg_class", "/fenlock/registers", "admitted",
		"version",
	}
	s.takes("a", "before", 7)
	var all []node.Request
	for i, name := range looks {
		r := request(name, fmt.Sprint(i), fence.Token(100+i))
		a := s.want(node.Granted)(s.node.Acquire(s.ctx, r))
		s.leased(name, fmt.Sprint(i), true, a.Register)
		s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(r, a.Register))), a.Register)
		s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, a.Register))), a.Register)
		all = append(all, r)
	}
	if got := s.list(); s.node.admin() && len(got) != len(looks)+1 {
		s.Errorf("%d leases listed; want %d", len(got), len(looks)+1)
	}
	a := s.want(node.Held)(s.other.Acquire(s.ctx, request("a", "rival", 0)))
	if a.HeldBy != "before" {
		s.Errorf("held by %q", a.HeldBy)
	}
	for _, r := range all {
		s.want(node.Granted)(s.node.Release(s.ctx, r))
	}
	if got := s.list(); s.node.admin() && len(got) != 1 {
		s.Errorf("%d leases listed after the release of all but one", len(got))
	}
}

// A node that can lose its memory is rebuilt from the registers of the others. A register that is
// missing or smaller than it was would let a token come twice.
func registersAreComplete(s *suite) {
	rejoiner, ok := s.other.Engine().(node.Rejoiner)
	if !ok {
		return // this engine does not forget
	}
	want := map[int]fence.Token{}
	for i := range 50 {
		name := fmt.Sprint("name ", i)
		a := s.want(node.Granted)(s.node.Acquire(s.ctx, request(name, "", 1<<52)))
		want[node.Stripe(name)] = a.Register
	}
	got, err := rejoiner.Registers(s.ctx)
	if err != nil || !got.Admitted {
		s.Fatalf("admitted %v, error %v", got.Admitted, err)
	}
	for stripe, token := range want {
		if got.Tokens[stripe] != token {
			s.Errorf("register %d is %d; want %d", stripe, got.Tokens[stripe], token)
		}
	}
	for stripe, token := range got.Tokens {
		if token != want[stripe] || stripe < 0 || stripe >= node.Stripes {
			s.Errorf("register %d is %d, and was never used", stripe, token)
		}
	}
}

// Two nodes of one store are one: its locks would have fewer copies than a majority is counted by.
// So a store has one name for all clients, and so has its memory as long as nothing is lost.
func registersNameOneStore(s *suite) {
	var before node.Registers
	for i := range 4 {
		client := []*watched{s.node, s.other}[i%2]
		rejoiner, ok := client.Engine().(node.Rejoiner)
		if !ok {
			return // this engine does not forget
		}
		s.want(node.Granted)(client.Acquire(s.ctx, request(fmt.Sprint("name ", i), "", 0)))
		r, err := rejoiner.Registers(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		if r.Server == "" || r.Memory == "" || i > 0 && (r.Server != before.Server || r.Memory != before.Memory) {
			s.Fatalf("the store calls itself %q with the memory %q, and was %q with %q", r.Server, r.Memory,
				before.Server, before.Memory)
		}
		before = r
	}
}
