package valkeynode_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// replicated starts a primary that is admitted, with replicas that are in step. It waits until the
// primary has heard of each.
func replicated(t *testing.T, kind testserver.Kind, maxTTL time.Duration, replicas int,
	config ...string) (primary *testserver.Server, all []*testserver.Server) {
	t.Helper()
	config = append([]string{"repl-diskless-sync-delay 0", "repl-ping-replica-period 1"}, config...)
	primary = testserver.Start(t, kind, config...)
	for range replicas {
		s := testserver.Start(t, kind, config...)
		follow(t, s, primary)
		all = append(all, s)
	}
	inStep(t, primary, replicas)
	primary.MarkAdmitted("fenlock:", maxTTL)
	return primary, all
}

// inStep waits until a primary says that it has so many replicas online.
func inStep(t *testing.T, primary *testserver.Server, replicas int) {
	t.Helper()
	eventually(t, func() error {
		if n := strings.Count(primary.Do("INFO", "replication"), "state=online"); n != replicas {
			return fmt.Errorf("%d replicas online", n)
		}
		return nil
	})
}

// A primary is stopped with requests in its sockets. Its replica is promoted and grants the lock to
// another client. Then the old primary goes on. It carries the requests out before it learns that
// it was replaced. None of them counts. Without the witness they do: two clients hold each lock.
func TestStopPromoteContinue(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for query, holders := range map[string]int{"": 0, "?witness=1": 0, "?witness=off": 6} {
			t.Run(query, func(t *testing.T) {
				t.Parallel()
				primary, replicas := replicated(t, kind, managedMaxTTL, 1)
				heir := replicas[0]
				old := joined(t, primary.URL()+query, managedMaxTTL)
				held := granted(t, old, "held")
				grownUp(t, heir)

				primary.Pause()
				heir.Do("REPLICAOF", "NO", "ONE")
				other := joined(t, heir.URL(), managedMaxTTL)
				acquire(t, other, request("held", "another"))
				// By now the heir has waited for all leases that it could have forgotten.
				calls := []*call{start(old, node.Extend, held, 10*time.Second)}
				for i := range 5 {
					name := fmt.Sprint("orders/", i)
					want(t, node.Granted)(other.Do(bounded(t), as(node.Acquire, request(name, "another"))))
					calls = append(calls, start(old, node.Acquire, request(name, "old client"), 10*time.Second))
				}
				time.Sleep(100 * time.Millisecond) // so that they are in the sockets
				primary.Resume()
				granted := 0
				for _, c := range calls {
					if a, err := c.wait(t); err == nil && a.Status == node.Granted {
						granted++
					}
				}
				if granted != holders {
					t.Errorf("the old primary has granted %d locks that its heir has granted; want %d", granted, holders)
				}
			})
		}
	})
}

// What is accepted is on the replicas by then, and each acceptance has written something there: a
// WAIT says nothing of what was only read.
func TestAcceptancesAreOnTheReplica(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, replicas := replicated(t, kind, time.Minute, 2)
		n := joined(t, primary.URL(), time.Minute)
		granted(t, n, "before") // connections, and what is recorded of the replicas
		offset := func() string { return infoField(t, primary, "master_repl_offset") }
		r := long("orders", "one")
		shared := long("shared", "two")
		shared.Shared = true
		for _, c := range []struct {
			name string
			op   node.Op
			r    *node.Request
		}{
			{"acquire", node.Acquire, &r}, {"confirm", node.Confirm, &r}, {"confirm again", node.Confirm, &r},
			{"extend", node.Extend, &r}, {"extend again", node.Extend, &r},
			{"acquire shared", node.Acquire, &shared}, {"confirm shared", node.Confirm, &shared},
			{"extend shared", node.Extend, &shared}, {"extend shared again", node.Extend, &shared},
			{"force", node.ForceRelease, &r},
		} {
			for _, batch := range []bool{false, true} {
				if batch && c.op == node.ForceRelease {
					continue
				}
				if c.op == node.Acquire {
					n.Do(bounded(t), as(node.Release, *c.r))
				}
				before := offset()
				waits := commandsOf(t, primary)["wait"]
				var a node.Answer
				if batch {
					a = want(t, node.Granted)(startTogether(t, n, c.op, *c.r))
				} else {
					a = want(t, node.Granted)(n.Do(bounded(t), as(c.op, *c.r)))
				}
				if offset() == before {
					t.Errorf("%s, in a batch %v: nothing was written", c.name, batch)
				}
				if more := commandsOf(t, primary)["wait"] - waits; more != 1 {
					t.Errorf("%s, in a batch %v: %d WAIT", c.name, batch, more)
				}
				if c.op == node.Acquire {
					c.r.Token = a.Register
					for _, s := range replicas {
						if s.Do("EXISTS", "fenlock:"+c.r.Name) != "1" {
							t.Errorf("%s: a replica does not have it", c.name)
						}
					}
				}
			}
		}
	})
}

// A replica that hears nothing has seen nothing, whatever it had confirmed before. A lease that was
// made is released, as after any unknown answer.
func TestReplicaThatHearsNothing(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, batch := range []bool{false, true} {
			m := manage(t, kind)
			n := joined(t, "valkey://"+m.address.Addr(0), managedMaxTTL)
			granted(t, n, "before that")
			m.hasReplicated(t, 1)
			m.replication.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
			for i := range 3 {
				r := request(fmt.Sprint("orders/", i), "one")
				r.TTL = managedTTL
				var a node.Answer
				var err error
				if batch {
					a, err = startTogether(t, n, node.Acquire, r)
				} else {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					a, err = n.Do(ctx, as(node.Acquire, r))
					cancel()
				}
				if err == nil {
					t.Errorf("in a batch %v: %+v, which its replica has not seen", batch, a)
				}
			}
		}
	})
}

// A replica that is missing costs the node its vote until the replica is back. Releases go on.
func TestReplicaThatIsMissing(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, c := range []struct {
			query string
			votes bool
		}{{"", false}, {"?witness=1", true}, {"?witness=2", false}, {"?witness=off", true}} {
			t.Run(c.query, func(t *testing.T) {
				t.Parallel()
				primary, replicas := replicated(t, kind, time.Minute, 2)
				n := joined(t, primary.URL()+c.query, time.Minute)
				want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, long("held", "one"))))
				replicas[0].Kill()
				inStep(t, primary, 1)
				if c.votes {
					eventually(t, func() error { // on a busy machine the replica may confirm it too late
						a, err := n.Do(bounded(t), as(node.Acquire, long("orders", "one")))
						if err == nil && a.Status == node.Granted {
							return nil
						}
						n.Do(bounded(t), as(node.Release, long("orders", "one")))
						return fmt.Errorf("%+v, %v", a, err)
					})
					return
				}
				eventually(t, func() error {
					a, err := n.Do(bounded(t), as(node.Acquire, long("orders", "one")))
					if err == nil || errors.Is(err, fenlock.ErrMisconfigured) ||
						!strings.Contains(err.Error(), "1 of the 2 replicas") {
						return fmt.Errorf("%+v, %v", a, err)
					}
					return nil
				})
				want(t, node.Granted)(n.Do(bounded(t), as(node.Release, long("held", "one"))))
				replicas[0].Restart()
				follow(t, replicas[0], primary)
				inStep(t, primary, 2)
				eventually(t, func() error {
					a, err := n.Do(bounded(t), as(node.Acquire, long("more", "one")))
					if err == nil && a.Status != node.Granted {
						err = fmt.Errorf("%+v", a)
					}
					return err
				})
			})
		}
	})
}

// A replica that comes later has to witness too, from the first request on that comes after it, by
// any client.
func TestReplicaThatComesLater(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, replicas := replicated(t, kind, time.Minute, 1)
		idle, busy := joined(t, primary.URL(), time.Minute), joined(t, primary.URL(), time.Minute)
		granted(t, idle, "one")
		granted(t, busy, "two")
		later := testserver.Start(t, kind)
		follow(t, later, primary)
		inStep(t, primary, 2)
		eventually(t, func() error {
			_, err := busy.Do(bounded(t), as(node.Acquire, request("three", "one")))
			return err
		})
		if mark := primary.Do("HGET", registersKey, "admitted"); mark != replID(t, primary)+"/2" {
			t.Errorf("the mark is %q", mark)
		}
		// The idle client knows of one. That one is gone, and the other is in step.
		replicas[0].Do("REPLICAOF", "NO", "ONE")
		inStep(t, primary, 1)
		for _, send := range []func() (node.Answer, error){
			func() (node.Answer, error) { return startTogether(t, idle, node.Acquire, request("four", "one")) },
			func() (node.Answer, error) {
				return idle.Do(bounded(t), as(node.Acquire, request("five", "one")))
			},
		} {
			if a, err := send(); err == nil && a.Status == node.Granted {
				t.Errorf("granted with one of two replicas: %+v", a)
			}
		}
	})
}

// An old primary gets a new replication id when its replicas have been gone for long, or when it is
// started again with its data. It is admitted anew then, and must not take itself for a server that
// never had a replica. A promoted replica does not need the replicas of its old primary.
func TestOldPrimaryRemembersItsReplicas(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, c := range []struct {
			name    string
			config  []string
			replace func(primary *testserver.Server)
		}{
			{"backlog freed", nil, func(s *testserver.Server) { s.Do("CONFIG", "SET", "repl-backlog-ttl", "1") }},
			{"restarted", []string{"appendonly yes"}, func(s *testserver.Server) {
				s.Kill()
				s.Restart()
			}},
			// It has the old id as its second then, as a promoted replica has.
			{"restarted from a snapshot", nil, func(s *testserver.Server) {
				s.Do("SAVE")
				s.Kill()
				s.Restart()
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				primary, replicas := replicated(t, kind, groupTTL, 1, c.config...)
				n := joined(t, primary.URL(), groupTTL)
				granted(t, n, "before")
				eventually(t, func() error {
					if mark := replicas[0].Do("HGET", registersKey, "admitted"); !strings.HasSuffix(mark, "/1") {
						return errors.New("the replica has the mark " + mark)
					}
					return nil
				})
				id := replID(t, primary)
				replicas[0].Do("REPLICAOF", "NO", "ONE")
				inStep(t, primary, 0)
				c.replace(primary)
				eventually(t, func() error {
					if replID(t, primary) == id {
						return errors.New("it has its id still")
					}
					return nil
				})
				eventually(t, func() error {
					a, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
					if err == nil && a.Status == node.Granted {
						t.Fatal("the old primary grants again")
					}
					if err == nil || !strings.Contains(err.Error(), "0 of the 1 replicas") {
						return fmt.Errorf("%+v, %v", a, err)
					}
					return nil
				})
				acquire(t, joined(t, replicas[0].URL(), groupTTL), request("orders", "two"))
			})
		}
	})
}

// Sentinels may promote a replica, and soon after another replica, before a client has seen that
// the second follows the first. So a promoted replica grants nothing until the others follow it.
func TestHeirNeedsTheOtherReplicas(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, replicas := replicated(t, kind, groupTTL, 2)
		granted(t, joined(t, primary.URL(), groupTTL), "before")
		heir, other := replicas[0], replicas[1]
		eventually(t, func() error {
			if mark := heir.Do("HGET", registersKey, "admitted"); !strings.HasSuffix(mark, "/2") {
				return errors.New("the replica has the mark " + mark)
			}
			return nil
		})
		primary.Kill()
		heir.Do("REPLICAOF", "NO", "ONE")
		n := joined(t, heir.URL(), groupTTL)
		eventually(t, func() error {
			a, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
			if err == nil && a.Status == node.Granted {
				t.Fatal("it grants, and another replica may be promoted next")
			}
			if err == nil || !strings.Contains(err.Error(), "0 of the 1 replicas") {
				return fmt.Errorf("%+v, %v", a, err)
			}
			return nil
		})
		follow(t, other, heir)
		inStep(t, heir, 1)
		acquire(t, n, request("orders", "one"))
		if mark := heir.Do("HGET", registersKey, "admitted"); mark != replID(t, heir)+"/1" {
			t.Errorf("the mark is %q", mark)
		}
	})
}

// A replica's replica confirms nothing and counts for nothing: not beside the replica, and not in
// its place.
func TestReplicaOfAReplica(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, replicas := replicated(t, kind, time.Minute, 1)
		below := testserver.Start(t, kind)
		follow(t, below, replicas[0])
		n := joined(t, primary.URL(), time.Minute)
		granted(t, n, "before")
		if mark := primary.Do("HGET", registersKey, "admitted"); mark != replID(t, primary)+"/1" {
			t.Errorf("the mark is %q", mark)
		}
		replicas[0].Kill()
		inStep(t, primary, 0)
		if a, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one"))); err == nil {
			t.Errorf("%+v, which its replica has not seen", a)
		}
	})
}

// Where the server itself refuses writes for want of replicas, the reason is named, and nothing is
// leased. A held lock cannot be released there either. It ends with its lease.
func TestTooFewReplicasToWrite(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, _ := replicated(t, kind, time.Minute, 1)
		n := joined(t, primary.URL(), time.Minute)
		want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, long("held", "one"))))
		primary.Do("CONFIG", "SET", "min-replicas-to-write", "2")
		for _, op := range []node.Op{node.Acquire, node.Release} {
			name := map[node.Op]string{node.Acquire: "orders", node.Release: "held"}[op]
			a, err := n.Do(bounded(t), as(op, long(name, "one")))
			if err == nil || !strings.Contains(err.Error(), "min-replicas-to-write") {
				t.Errorf("%v: %+v, %v", op, a, err)
			}
		}
		if primary.Do("EXISTS", "fenlock:orders") != "0" || primary.Do("EXISTS", "fenlock:held") != "1" {
			t.Error("a lease was made or removed")
		}
		primary.Do("CONFIG", "SET", "min-replicas-to-write", "0")
		want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, long("orders", "one"))))
	})
}

// A service that does not let clients wait: the answer is unknown, with the reason.
func TestWaitIsRefused(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, _ := replicated(t, kind, time.Minute, 1, `rename-command WAIT ""`)
		n := joined(t, primary.URL(), time.Minute)
		for range 2 {
			a, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
			if err == nil || !errors.Is(err, fenlock.ErrMisconfigured) ||
				!strings.Contains(err.Error(), "does not have a command") {
				t.Errorf("%+v, %v", a, err)
			}
		}
		off := joined(t, primary.URL()+"?witness=off", time.Minute)
		want(t, node.Granted)(off.Do(bounded(t), as(node.Acquire, request("another", "one"))))
	})
}

// BenchmarkWitness is a lock and its release, with replicas and without.
func BenchmarkWitness(b *testing.B) {
	for _, kind := range testserver.Kinds(b) {
		for replicas := range 3 {
			b.Run(fmt.Sprintf("%s/replicas=%d", kind, replicas), func(b *testing.B) {
				primary := testserver.Start(b, kind, "repl-diskless-sync-delay 0")
				for range replicas {
					follow(b, testserver.Start(b, kind), primary)
				}
				primary.MarkAdmitted("fenlock:", time.Minute)
				n, err := valkeynode.Open(primary.URL())
				if err != nil {
					b.Fatal(err)
				}
				l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, TTL: 30 * time.Second, MaxTTL: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { l.Close() })
				eventually(b, func() error {
					k, err := l.TryAcquire(bounded(b), "warm up")
					if err == nil {
						err = k.Release(bounded(b))
					}
					return err
				})
				for b.Loop() {
					lock(b, l, "orders", false)
				}
			})
		}
	}
}
