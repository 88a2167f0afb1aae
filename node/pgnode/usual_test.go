package pgnode

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// meeting is an operation of a client that meets a transaction of another session.
type meeting struct {
	name   string
	before func(s *scene)        // what was there
	other  func(s *scene) string // what the other session does first, and commits when the client waits for it
	does   func(s *scene) node.Request
	status node.Status
	then   func(s *scene, a node.Answer)
}

// scene is a schema in which two meet.
type scene struct {
	t            *testing.T
	n            *Node
	held         node.Request // of the client
	token        fence.Token  // that came with it
	told         chan string  // of a waiter of another client
	other, third string       // a name of the same stripe, and who else may come
}

// call is a call of serve by another session.
func (s *scene) call(r node.Request) string {
	return fmt.Sprintf(`SELECT fenlock.serve%s(%d, '\x%x', %d, '\x%x', 60000, %d, 0, '\x%x', %d, '%s', false, 0)`, format, r.Op,
		r.Name, node.Stripe(r.Name), string(r.Holder), r.Token, r.Place.Waiter, r.Place.Stamp, s.n.ourTerms())
}

// What the usual statements decide by may change while they wait for another transaction. They look
// at it again, or are refused by what they see then.
func TestUsualOperationMeetsAnother(t *testing.T) {
	t.Parallel()
	server := testserver.StartPostgres(t)
	take := func(s *scene) node.Request { return as(node.Acquire, request("a", 0)) }
	free := func(s *scene) { known(s.t, s.n, "a") }
	hold := func(s *scene) {
		s.held = request("a", 0)
		s.token = want(s.t, node.Granted)(s.n.Do(s.t.Context(), as(node.Acquire, s.held))).Register
	}
	waits := func(s *scene) string { return s.call(as(node.Acquire, asks("a", s.third, 1))) }
	for _, m := range []meeting{
		{name: "an acquisition, another client's", before: free, does: take, status: node.Held,
			other: func(s *scene) string { return s.call(as(node.Acquire, request("a", 0))) }},
		{name: "an acquisition, another name of the stripe", before: free, does: take, status: node.Granted,
			other: func(s *scene) string { return s.call(as(node.Acquire, request(s.other, 500))) },
			then: func(s *scene, a node.Answer) {
				if a.Register != 501 {
					s.t.Errorf("the token %d; 500 was promised before", a.Register)
				}
			}},
		{name: "an acquisition, the end of the vote", before: free, does: take, status: node.Rejoining,
			other: func(*scene) string {
				return "SELECT fenlock.quiesce(); UPDATE fenlock.memory SET admitted = false, made = fenlock.me()"
			}},
		{name: "an acquisition, another name that comes and goes", before: free, does: take, status: node.Granted,
			other: func(s *scene) string {
				r := request(s.other, 500)
				return s.call(as(node.Acquire, r)) + ";" + s.call(as(node.Release, r))
			},
			then: func(s *scene, a node.Answer) {
				if a.Register != 501 {
					s.t.Errorf("the token %d; 500 was promised before", a.Register)
				}
			}},
		{name: "an acquisition, another client's beside another name", before: free, does: take, status: node.Held,
			other: func(s *scene) string {
				r := request(s.other, 500)
				return s.call(as(node.Acquire, r)) + ";" + s.call(as(node.Acquire, request("a", 0))) + ";" +
					s.call(as(node.Release, r))
			}},
		{name: "an acquisition, a sweep and a new row", before: free, does: take, status: node.Held,
			other: func(s *scene) string {
				return "SELECT fenlock.sweep(3);" + s.call(as(node.Acquire, request("a", 0)))
			}},
		{name: "an acquisition, locks that came and went", before: free, does: take, status: node.Granted,
			other: func(s *scene) string {
				r := request("a", 700)
				return s.call(as(node.Acquire, r)) + ";" + s.call(as(node.Release, r)) + ";" +
					s.call(as(node.Acquire, request(s.other, 0)))
			},
			then: func(s *scene, a node.Answer) {
				if a.Register != 702 {
					s.t.Errorf("the token %d; 701 was promised before", a.Register)
				}
			}},
		{name: "an acquisition, a holder that shares", before: free, does: take, status: node.Held,
			other: func(s *scene) string {
				return strings.Replace(s.call(as(node.Acquire, request("a", 0))), "false", "true", 1)
			}},
		{name: "an acquisition, a waiter before it", before: free, does: take, status: node.Held,
			other: func(s *scene) string {
				r := request("a", 0)
				return s.call(as(node.Acquire, r)) + ";" + s.call(as(node.Acquire, asks("a", s.third, 1))) + ";" +
					s.call(as(node.Release, r))
			}},
		{name: "an extension, the lease anew in the same row", before: hold, status: node.Lost,
			does: func(s *scene) node.Request { return as(node.Extend, s.held) },
			other: func(s *scene) string {
				return s.call(as(node.Release, s.held)) + ";" + s.call(as(node.Acquire, request("a", 0)))
			}},
		{name: "an extension, a release and a sweep", before: hold, status: node.Granted,
			does: func(s *scene) node.Request { return as(node.Extend, s.held) },
			other: func(s *scene) string {
				return s.call(as(node.Release, s.held)) + ";" + s.call(as(node.Acquire, request(s.other, 900))) +
					";SELECT fenlock.sweep(3)"
			},
			then: func(s *scene, a node.Answer) {
				if a.Register != 900 {
					s.t.Errorf("the origin %d; the register was 900", a.Register)
				}
			}},
		{name: "an extension, a waiter that comes", before: hold, other: waits, status: node.Granted,
			does: func(s *scene) node.Request { return as(node.Extend, s.held) }},
		{name: "a release, a waiter that comes and goes", before: hold, status: node.Granted,
			other: func(s *scene) string {
				r := asks("a", s.third, 1)
				gone := as(node.Release, r)
				gone.Place.Stamp = 0
				return s.call(as(node.Acquire, r)) + ";" + s.call(gone)
			},
			does: func(s *scene) node.Request { return as(node.Release, s.held) }},
		{name: "a release, a downgrade", before: hold, status: node.Granted,
			other: func(s *scene) string { return strings.Replace(s.call(as(node.Extend, s.held)), "false", "true", 1) },
			does:  func(s *scene) node.Request { return as(node.Release, s.held) },
			then: func(s *scene, _ node.Answer) {
				want(s.t, node.Granted)(s.n.Do(s.t.Context(), as(node.Acquire, request("a", 0))))
			}},
		{name: "an extension, the end of the vote", before: hold, status: node.Rejoining,
			does: func(s *scene) node.Request { return as(node.Extend, s.held) },
			other: func(*scene) string {
				return "SELECT fenlock.quiesce(); UPDATE fenlock.memory SET admitted = false, made = fenlock.me()"
			}},
		{name: "an extension, a release by force and another holder", before: hold, status: node.Lost,
			does: func(s *scene) node.Request { return as(node.Extend, s.held) },
			other: func(s *scene) string {
				return s.call(node.Request{Op: node.ForceRelease, Name: "a"}) + ";" + s.call(as(node.Acquire, request("a", 0)))
			}},
		{name: "a release, a waiter that comes", before: hold, other: waits, status: node.Granted,
			does: func(s *scene) node.Request { return as(node.Release, s.held) },
			then: func(s *scene, _ node.Answer) {
				select {
				case waiter := <-s.told:
					if waiter != s.third {
						s.t.Errorf("%q is told", waiter)
					}
				case <-time.After(patience):
					s.t.Error("no waiter is told")
				}
			}},
		{name: "a release, a release by force and another holder", before: hold, status: node.Lost,
			does: func(s *scene) node.Request { return as(node.Release, s.held) },
			other: func(s *scene) string {
				return s.call(node.Request{Op: node.ForceRelease, Name: "a"}) + ";" + s.call(as(node.Acquire, request("a", 0)))
			}},
	} {
		t.Run(m.name, func(t *testing.T) { m.meet(t, newSchema(t, server)) })
	}
}

func (m *meeting) meet(t *testing.T, u string) {
	s := &scene{t: t, n: alone(t, u), third: clients[0] + ":1", told: make(chan string, 10),
		other: besides("a", 1)[0]}
	if err := alone(t, u).Listen(t.Context(), clients[0], func(waiter string) {
		if waiter != "" {
			s.told <- waiter
		}
	}); err != nil {
		t.Fatal(err)
	}
	s.n.swept.Store(time.Now().UnixMilli()) // what is swept, the scene says
	m.before(s)
	r := m.does(s)
	if !s.n.usual(r) {
		t.Fatal("the test tests nothing: it is not begun by a usual statement")
	}
	observer := open(t, u)
	tx, err := observer.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var pid int
	if err := tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	for _, statement := range strings.Split(m.other(s), ";") {
		if _, err := tx.Exec(inSchema(statement, s.n.schema)); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		node.Answer
		err error
	}
	done := make(chan answer, 1)
	go func() {
		a, err := s.n.serve(context.WithoutCancel(t.Context()), r)
		done <- answer{a, err}
	}()
	waitFor(t, observer.db, pid, nil)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	a := <-done
	if a.err != nil || a.Status != m.status {
		t.Fatalf("%+v, %v; want %v", a.Answer, a.err, m.status)
	}
	if m.then != nil {
		m.then(s, a.Answer)
	}
}

// waitFor waits until a session waits for a lock of another one, or is done, which stays there.
func waitFor(t *testing.T, db *sql.DB, blocker int, done chan error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var blocked int
		if err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, blocker).
			Scan(&blocked); err != nil || time.Now().After(end) {
			t.Fatalf("no session waits for the other one: %v", err)
		}
		if blocked > 0 || len(done) > 0 {
			return
		}
	}
}
