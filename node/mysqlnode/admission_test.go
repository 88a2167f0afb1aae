package mysqlnode_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/mysqlnode"
	"github.com/fenlock/fenlock/nodetest"
)

// brief is the longest lease of groups that wait for it. A busy machine may need a second for a
// request, and has to see that a server is out.
const brief = 2 * time.Second

func TestAdmission(t *testing.T) {
	nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
		t.Parallel()
		s := testserver.StartMariaDB(t)
		wipe := func() {
			clear(t, s)
			if err := open(t, s.URL()).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		wipe()
		return nodetest.Admission{
			Open: func() node.Node { return open(t, s.URL()) },
			Wipe: wipe, Wait: time.Sleep,
			Copy: func() func() {
				saveTables(t, s, "saved")
				return func() { putTablesBack(t, s, "saved") }
			},
		}
	})
}

// admitted asks until the server is admitted.
func admitted(t testing.TB, n node.Node, ttl time.Duration) node.Answer {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		a, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, fmt.Sprint("asks ", holders.Load())), ttl))
		switch {
		case err != nil:
			t.Fatal(err)
		case a.Status == node.Granted:
			return a
		case time.Now().After(end):
			t.Fatalf("it is not admitted: %+v", a)
		}
	}
}

// used makes new tables on a server, in a group of one, and has it admitted.
func used(t testing.TB, s *testserver.MariaDB, maxTTL time.Duration) *mysqlnode.Node {
	t.Helper()
	clear(t, s)
	n := made(t, s, maxTTL, true)
	admitted(t, n, brief)
	return n
}

// What a client has read before the store was noted as out, it cannot write afterwards.
func TestWriteAfterTheNote(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, brief)
	for op, kind := range map[string]node.Op{"extend": node.Extend, "acquire": node.Acquire, "force": node.ForceRelease,
		"confirm": node.Confirm} {
		t.Run(op, func(t *testing.T) {
			lock := as(node.Acquire, request(node.Acquire, "held by "+op), brief) // a note takes all leases
			lock.Token = want(t, node.Granted)(n.Do(t.Context(), lock)).Register
			r := as(kind, lock)
			if kind == node.Acquire || kind == node.ForceRelease {
				r = as(kind, request(kind, "free for "+op), brief)
			}
			var noted time.Time
			n.BeforeWrite(func() {
				n.BeforeWrite(nil)
				noted = time.Now()
				f, err := n.Store().Facts(t.Context())
				if err != nil || !f.Votes {
					t.Errorf("%+v, %v", f, err)
				}
				if done, err := n.Store().Note(t.Context(), f); err != nil || !done {
					t.Errorf("%v, %v", done, err)
				}
			})
			a, err := n.Do(t.Context(), r)
			if late := time.Since(noted) > brief; err != nil || a.Status != node.Rejoining && !late {
				t.Errorf("%+v, %v", a, err) // a slow machine may have it admitted meanwhile
			}
			admitted(t, n, brief)
		})
	}
}

// leases returns how many stripes have leases.
func leases(t testing.TB, s *testserver.MariaDB) (n int) {
	t.Helper()
	query(t, s, `SELECT COUNT(*) FROM fenlock_stripes WHERE LENGTH(leases) > 0`, &n)
	return n
}

// A lease that is on a server which is out is gone with the note and with the mark, however it came
// there.
func TestStrayLeases(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, brief)
	take := func() {
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "held"), brief)))
	}
	take()
	var stray string
	query(t, s, fmt.Sprintf(`SELECT HEX(leases) FROM fenlock_stripes WHERE stripe = %d`, node.Stripe("held")), &stray)
	run(t, s, `UPDATE fenlock_stripes SET version = -1 - stripe WHERE stripe < 9`) // by hand
	store := n.Store()
	f, err := store.Facts(t.Context())
	if err != nil || leases(t, s) == 0 {
		t.Fatal(err)
	}
	if done, err := store.Note(t.Context(), f); err != nil || !done || leases(t, s) != 0 {
		t.Errorf("%v, %v: %d stripes have leases after the note", done, err, leases(t, s))
	}
	run(t, s, fmt.Sprintf(`UPDATE fenlock_stripes SET leases = x'%s' WHERE stripe = %d`, stray, node.Stripe("held")))
	if f, err = store.Facts(t.Context()); err != nil || f.Votes || f.Marked || !f.Counted {
		t.Errorf("%+v, %v", f, err)
	}
	if done, err := store.Mark(t.Context(), f, n.Admission().Terms(), nil); err != nil || !done || leases(t, s) != 0 {
		t.Errorf("%v, %v: %d stripes have leases after the mark", done, err, leases(t, s))
	}
	take()
}

// Of clients that have found the same, one is first; a client that was paused finds that the store
// has changed.
func TestPausedClient(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, brief)
	store, own := n.Store(), n.Admission().Terms()
	look := func() admit.Facts {
		t.Helper()
		f, err := store.Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	does := func(what string, is bool) func(bool, error) {
		return func(done bool, err error) {
			t.Helper()
			if err != nil || done != is {
				t.Errorf("%s: %v, %v", what, done, err)
			}
		}
	}
	before := look()
	does("note", true)(store.Note(t.Context(), before))
	does("note again", false)(store.Note(t.Context(), before))
	does("mark what was noted since", false)(store.Mark(t.Context(), before, own, nil))

	noted := look()
	var all sync.WaitGroup
	var mu sync.Mutex
	marks := 0
	for range 8 {
		all.Go(func() {
			done, err := store.Mark(t.Context(), noted, own, nil)
			if mu.Lock(); done {
				marks++
			}
			mu.Unlock()
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if marks != 1 {
		t.Errorf("%d of 8 have set the mark", marks)
	}
	does("note what votes", false)(store.Note(t.Context(), noted))

	does("note", true)(store.Note(t.Context(), look()))
	noted = look()
	saveTables(t, s, "saved")
	putTablesBack(t, s, "saved") // byte for byte
	does("mark other tables", false)(store.Mark(t.Context(), noted, own, nil))
	does("note", true)(store.Note(t.Context(), look()))
	noted = look()
	s.Kill()
	time.Sleep(time.Second) // a run is known by the second in which it began
	s.Restart()
	does("mark another run", false)(store.Mark(t.Context(), noted, own, nil))
	if f := look(); f.Votes || f.Kept || f.Counted {
		t.Errorf("%+v", f)
	}
	admitted(t, n, brief)

	// It can wait for the server's clock to be there again, or begin anew.
	does("note", true)(store.Note(t.Context(), look()))
	run(t, s, `UPDATE fenlock_meta SET made = made + 3600000000, version = version + 1`)
	if f := look(); f.Counted {
		t.Errorf("%+v", f)
	}
	admitted(t, n, brief)
}

// Raising changes the stripe's version, so that what was read before is not written, and lowers
// nothing.
func TestRaise(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := used(t, s, time.Minute)
	stripe := node.Stripe("a")
	n.BeforeWrite(func() {
		n.BeforeWrite(nil)
		if err := n.Store().Raise(t.Context(), admit.Facts{}, map[int]fence.Token{stripe: 1000, stripe ^ 1: 5}); err != nil {
			t.Error(err)
		}
	})
	if a := want(t, node.Granted)(n.Do(t.Context(),
		as(node.Acquire, request(node.Acquire, "a"), time.Minute))); a.Register != 1001 {
		t.Errorf("%+v", a)
	}
	if err := n.Store().Raise(t.Context(), admit.Facts{}, map[int]fence.Token{stripe: 7}); err != nil {
		t.Error(err)
	}
	if r, err := n.Registers(t.Context()); err != nil || r.Tokens[stripe] != 1001 || r.Tokens[stripe^1] != 5 {
		t.Errorf("%+v, %v", r.Tokens, err)
	}
	if err := n.Store().Raise(t.Context(), admit.Facts{}, map[int]fence.Token{node.Stripes: 7}); err == nil {
		t.Error("raised a register that does not exist")
	}
}

// contents is what the tables have.
func contents(t testing.TB, s *testserver.MariaDB) (all string) {
	t.Helper()
	query(t, s, `SELECT CONCAT((SELECT CONCAT_WS(' ', version, made, facts) FROM fenlock_meta), ' ',
		(SELECT SHA1(GROUP_CONCAT(SHA1(CONCAT_WS(' ', stripe, version, token, turns, HEX(leases), HEX(waiters), HEX(notices)))))
		FROM fenlock_stripes))`, &all)
	return all
}

// A row that no fenlock has written, or a newer one, is refused, and nothing is changed.
func TestFactsOfOthers(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	used(t, s, brief)
	var facts string
	query(t, s, `SELECT facts FROM fenlock_meta`, &facts)
	for name, c := range map[string]struct{ change, says string }{
		"a newer format":         {`format = 3`, "the tables have the format 3"},
		"not JSON":               {`facts = 'x'`, "facts cannot be read"},
		"JSON of another shape":  {`facts = '{"max_ttl_ms": "a"}'`, "facts cannot be read"},
		"no memory":              {`facts = JSON_REMOVE(facts, '$.memory')`, "and not with which memory"},
		"a longest lease below":  {`facts = JSON_SET(facts, '$.max_ttl_ms', -5)`, "MaxTTL is -5ms"},
		"another longest lease":  {`facts = JSON_SET(facts, '$.max_ttl_ms', 5000)`, "MaxTTL is 5s"},
		"other members":          {`facts = JSON_SET(facts, '$.members', 'x y')`, "another group"},
		"other members, no mark": {`facts = '{"members": "x y"}'`, "another group"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, s, `UPDATE fenlock_meta SET format = 2, facts = '`+strings.ReplaceAll(facts, `'`, `''`)+
				`', version = version + 1`,
				`UPDATE fenlock_meta SET `+c.change+`, version = version + 1`)
			before := contents(t, s)
			n := open(t, s.URL())
			join(t, n, brief, true)
			for range 2 {
				_, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), brief))
				refused(t, err, c.says, n.String())
			}
			if after := contents(t, s); after != before {
				t.Errorf("it was written: %s; and was %s", after, before)
			}
		})
	}
}

// Tables that were emptied in part, or whose facts were deleted, are not new.
func TestUsedTablesAreNotNew(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	for name, statements := range map[string][]string{
		"no facts":    {`DELETE FROM fenlock_meta`},
		"no stripes":  {`TRUNCATE fenlock_stripes`},
		"few stripes": {`DELETE FROM fenlock_stripes WHERE stripe > 5`},
	} {
		t.Run(name, func(t *testing.T) {
			used(t, s, time.Hour).Close()
			run(t, s, statements...)
			n := open(t, s.URL())
			if err := n.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			join(t, n, time.Hour, true)
			if a := want(t, node.Rejoining)(n.Do(t.Context(), request(node.Acquire, "a"))); a.Absence.Wait < 59*time.Minute {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A replica is not written to, whatever the user may do, when its registers are asked for. What is
// noted there would count when it is promoted. Neither is a server that this client does not admit.
func TestRegistersWriteNothingOnAReplica(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	used(t, s, time.Hour).Close()
	saveTables(t, s, "saved")
	putTablesBack(t, s, "saved")
	before := contents(t, s)
	registers := func(n *mysqlnode.Node, memory string) string {
		t.Helper()
		r, err := n.Registers(t.Context())
		if err != nil || r.Admitted || len(r.Tokens) == 0 || r.Memory == "" || r.Memory == memory {
			t.Errorf("%+v, %v", r, err)
		}
		return r.Memory
	}
	looks, n := open(t, s.URL()), open(t, s.URL())
	join(t, n, time.Hour, false)
	unnoted := registers(looks, "")
	run(t, s, `SET GLOBAL read_only = 1`)
	if r, err := n.Registers(t.Context()); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%+v, %v; the server is read-only", r, err)
	}
	if after := contents(t, s); after != before {
		t.Errorf("it was written: %s; and was %s", after, before)
	}
	run(t, s, `SET GLOBAL read_only = 0`)
	noted := registers(n, unnoted)
	if again, now := registers(n, ""), registers(looks, ""); again != noted || now != noted {
		t.Errorf("the memory is called %s, %s and %s", noted, again, now)
	}
}
