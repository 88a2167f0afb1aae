package valkeynode_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// model is what the rules say about the one name of the test below. Its time
// stands still; a lease ends when the test says so.
type model struct {
	entry rule.Entry
	line  rule.Line
	alive string // the client that listens; the others are gone
}

func (m *model) reachable(waiter string) bool { return strings.HasPrefix(waiter, m.alive+":") }

func (m *model) holder() string {
	if !m.entry.Leased(0) {
		return "(nil)"
	}
	return string(m.entry.Holder)
}

func (m *model) inLine() string {
	var words []string
	for _, p := range m.line {
		words = append(words, fmt.Sprintf("%s %d", p.Waiter, p.Stamp))
	}
	return "[" + strings.Join(words, " ") + "]"
}

// The scripts do what the rules say, step by step, in any order of requests.
func TestScriptsFollowTheRules(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := lineServer(t, kind, 1)
		a := p[0]
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		m := &model{alive: a.client}
		stripe := fmt.Sprint(node.Stripe("orders"))
		for step := range 600 {
			r := request("orders", fmt.Sprintf("h%d", random.IntN(3)))
			r.TTL = time.Minute
			if random.IntN(6) > 0 {
				client := strings.Repeat(string("aad"[random.IntN(3)]), 32)
				r.Place = node.Place{Waiter: fmt.Sprintf("%s:%d", client, random.IntN(3)), Stamp: random.Int64N(5)}
			}
			var what string
			var want rule.Reply
			var called string
			var got node.Answer
			var err error
			ahead := 0
			switch random.IntN(8) {
			default:
				what = fmt.Sprintf("acquire for %s by %+v", r.Holder.Label(), r.Place)
				want, called = rule.AcquireInLine(&m.entry, &m.line, 0, r.Place, m.reachable, func(e *rule.Entry) rule.Reply {
					return rule.Acquire(e, 0, r.Holder, r.TTL, r.Token)
				})
				if want.Status == node.Held {
					ahead = m.line.Ahead(r.Place.Waiter)
				}
				got, err = a.Do(bounded(t), as(node.Acquire, r))
			case 0, 1, 2:
				what = fmt.Sprintf("release for %s by %+v", r.Holder.Label(), r.Place)
				want, called = rule.ReleaseInLine(&m.entry, &m.line, 0, r.Holder, r.Place, m.reachable)
				got, err = a.Do(bounded(t), as(node.Release, r))
			case 3:
				what = "force"
				want, called = rule.ForceReleaseInLine(&m.entry, &m.line, 0, m.reachable, func(e *rule.Entry) rule.Reply {
					return rule.ForceRelease(e, 0, 1)
				})
				got, err = a.Do(bounded(t), node.Request{Op: node.ForceRelease, Name: "orders", Token: 1})
			case 4:
				what = "expiry"
				m.entry.Holder = ""
				s.Do("DEL", "fenlock:orders")
			}
			fail := func(format string, args ...any) {
				t.Helper()
				t.Fatalf("seed %d, step %d, %s: %s", seed, step, what, fmt.Sprintf(format, args...))
			}
			if err != nil || got.Status != want.Status || got.Register != want.Register || got.Ahead != ahead {
				fail("%+v, %v; want %+v, %d ahead", got, err, want, ahead)
			}
			if called != "" {
				if event := next(t, a.events); event != called {
					fail("%s was called, want %s", event, called)
				}
			}
			if holder := s.Do("GET", "fenlock:orders"); holder != m.holder() {
				fail("the holder is %s, want %s", holder, m.holder())
			}
			if line := s.Do("ZRANGE", lineKey, "0", "-1", "WITHSCORES"); line != m.inLine() {
				fail("the line is %s, want %s", line, m.inLine())
			}
			if register := s.Do("HGET", "fenlock-registers:fenlock:", stripe); register != m.entry.Register.String() && m.entry.Register != fence.Token(0) {
				fail("the register is %s, want %s", register, m.entry.Register)
			}
			// What ends here ends by the test's will only.
			s.Do("PERSIST", "fenlock:orders")
		}
		silent(t, a)
	})
}
