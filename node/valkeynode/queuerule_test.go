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
	queue rule.Line
	alive string // the client that listens; the others are gone
}

func (m *model) reachable(waiter string) bool { return strings.HasPrefix(waiter, m.alive+":") }

func (m *model) holder() string {
	if !m.entry.Leased(0) {
		return "(nil)"
	}
	return string(m.entry.Holder)
}

func (m *model) inQueue() string {
	var words []string
	for _, p := range m.queue {
		words = append(words, fmt.Sprintf("%s %d", p.Waiter, p.Stamp))
	}
	return "[" + strings.Join(words, " ") + "]"
}

// The scripts do what the rules say, step by step, in any order of requests.
func TestScriptsFollowTheRules(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 1)
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
			var notified string
			var got node.Answer
			var err error
			ahead := 0
			switch random.IntN(8) {
			default:
				what = fmt.Sprintf("acquire for %s by %+v", r.Holder.Label(), r.Place)
				want, notified = rule.AcquireInLine(&m.entry, &m.queue, 0, r.Place, m.reachable, func(e *rule.Entry) rule.Reply {
					return rule.Acquire(e, 0, r.Holder, r.TTL, r.Token)
				})
				if want.Status == node.Held {
					ahead = m.queue.Ahead(r.Place.Waiter)
				}
				got, err = a.Do(bounded(t), as(node.Acquire, r))
			case 0, 1, 2:
				what = fmt.Sprintf("release for %s by %+v", r.Holder.Label(), r.Place)
				want, notified = rule.ReleaseInLine(&m.entry, &m.queue, 0, r.Holder, r.Place, m.reachable)
				got, err = a.Do(bounded(t), as(node.Release, r))
			case 3:
				what = "force"
				want, notified = rule.ForceReleaseInLine(&m.entry, &m.queue, 0, m.reachable, func(e *rule.Entry) rule.Reply {
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
			if notified != "" {
				if event := next(t, a.events); event != notified {
					fail("%s was notified, want %s", event, notified)
				}
			}
			if holder := s.Do("GET", "fenlock:orders"); holder != m.holder() {
				fail("the holder is %s, want %s", holder, m.holder())
			}
			if queue := s.Do("ZRANGE", queueKey, "0", "-1", "WITHSCORES"); queue != m.inQueue() {
				fail("the queue is %s, want %s", queue, m.inQueue())
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
