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
	rule.Waiters
	entry rule.Entry
	alive string // the client that listens; the others are gone
}

var _ rule.Queue = (*model)(nil)

func (m *model) Renew() {}

func (m *model) Reachable(waiter string) bool { return strings.HasPrefix(waiter, m.alive+":") }

func (m *model) holder() string {
	if !m.entry.Leased(0) {
		return "(nil)"
	}
	return string(m.entry.Holder)
}

func (m *model) inQueue() string {
	var words []string
	for _, p := range m.Waiters {
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
			switch random.IntN(12) {
			default:
				r.Op = node.Acquire
			case 0, 1, 2:
				r.Op = node.Release
			case 3:
				r.Op, r.Token = node.ForceRelease, 1
			case 4:
				r.Op, r.Token = node.Confirm, fence.Token(1+random.IntN(600))
			case 5:
				r.Op, r.Token = node.Extend, fence.Token(1+random.IntN(600))
			case 6: // expiry
				m.entry.Holder = ""
				s.Do("DEL", "fenlock:orders")
			}
			what := fmt.Sprintf("%v %d for %s by %+v", r.Op, r.Token, r.Holder.Label(), r.Place)
			var got, want node.Answer
			var notified string
			var err error
			if r.Op != 0 {
				want, notified = rule.Serve(&m.entry, m, 0, r)
				got, err = a.Do(bounded(t), r)
				want.Remaining, want.Clock, got.Remaining, got.Clock = 0, 0, 0, 0 // its time goes on
			}
			fail := func(format string, args ...any) {
				t.Helper()
				t.Fatalf("seed %d, step %d, %s: %s", seed, step, what, fmt.Sprintf(format, args...))
			}
			if err != nil || got != want {
				fail("%+v, %v; want %+v", got, err, want)
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
