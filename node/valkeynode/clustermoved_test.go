package valkeynode

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// mover is a member of a cluster of two. The first has the slot, until that moves to the second
// with all keys. The second is not admitted: its registers have the mark of the first. Its scripts
// compare the mark as real ones do.
type mover struct {
	net.Listener
	other   *mover
	has     func() bool                         // it has the slot
	refuses func(args []string) (redirect bool) // single commands about keys, though it has the slot
	replID  string
}

const firstReplID = "4567def" // honest has it

func newMovers(t *testing.T) (first, second *mover, move func()) {
	t.Helper()
	var moved atomic.Bool
	none := func([]string) bool { return false }
	first = &mover{has: func() bool { return !moved.Load() }, refuses: none, replID: firstReplID}
	second = &mover{has: moved.Load, refuses: none, replID: "89abcde"}
	first.other, second.other = second, first
	for _, m := range []*mover{first, second} {
		m.Listener = Serve(t, func() func([]string) []byte {
			return func(args []string) []byte { return []byte(m.reply(args)) }
		})
	}
	return first, second, func() { moved.Store(true) }
}

func (m *mover) reply(args []string) string {
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	switch strings.ToUpper(args[0]) {
	case "HELLO", "SCRIPT":
		return string(honest(args))
	case "CLIENT":
		return "+OK\r\n"
	case "INFO":
		text := strings.NewReplacer("server_mode:standalone", "server_mode:cluster", "cluster_enabled:0", "cluster_enabled:1",
			firstReplID, m.replID).Replace(info)
		if !strings.Contains(text, "connected_slaves:") {
			text += "connected_slaves:0\r\n"
		}
		return bulk(text)
	case "CLUSTER":
		text := ""
		for i, l := range []net.Listener{m, m.other} {
			text += fmt.Sprintf("%040d %s@1 master - 0 0 1 connected 1\n", i, l.Addr())
		}
		return bulk(text)
	}
	if !m.has() || m.refuses(args) {
		return fmt.Sprintf("-MOVED 1 %s\r\n", m.other.Addr())
	}
	if args[0] != "EVALSHA" {
		return string(honest(args))
	}
	if m.replID != firstReplID && !slices.Contains(args, firstReplID) {
		return "+rejoining\r\n"
	}
	return ":7\r\n"
}

// told is what a request was answered.
type told struct {
	answer node.Answer
	err    error
}

type teller chan told

func (c teller) Wanted() bool                       { return true }
func (c teller) Done(answer node.Answer, err error) { c <- told{answer, err} }

// batch sends requests at once, with others behind them, so that one look at the server is to prove
// the answers of all.
func batch(t *testing.T, n *Node, requests ...node.Request) (answers []told) {
	t.Helper()
	sent := len(requests)
	for range 3 {
		requests = append(requests, node.Request{Op: node.Confirm, Name: "another",
			Holder: "00000000000000000000000000000009:x", Token: 1})
	}
	var calls []node.Call
	for range requests {
		calls = append(calls, make(teller, 1))
	}
	if !n.Exchange(time.Minute, requests, calls) {
		t.Fatal("not sent")
	}
	for _, call := range calls {
		select {
		case a := <-call.(teller):
			answers = append(answers, a)
		case <-time.After(3 * time.Minute):
			t.Fatal("a request has no answer")
		}
	}
	return answers[:sent]
}

// What a member answers with MOVED was not executed. The answer of the member that has the slot now
// counts only after a look at that member.
func TestAnswersAfterMoved(t *testing.T) {
	acquire := func(name string) node.Request {
		return node.Request{Op: node.Acquire, Name: name, Holder: "00000000000000000000000000000001:x", TTL: time.Second,
			Token: 1}
	}
	opened := func(t *testing.T, first, second *mover) *Node {
		n, err := Open("valkey-cluster://" + first.Addr().String() + "," + second.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		if a, err := n.Do(t.Context(), acquire("before")); err != nil || a.Status != node.Granted {
			t.Fatalf("before: %+v, %v", a, err)
		}
		return n
	}
	about := func(args []string, name string) bool { return slices.Contains(args, "{fenlock}fenlock:"+name) }

	t.Run("the slot has moved", func(t *testing.T) {
		first, second, move := newMovers(t)
		n := opened(t, first, second)
		move()
		for i, a := range batch(t, n, acquire("orders"), acquire("bills")) {
			if a.err == nil && a.answer.Status != node.Rejoining {
				t.Errorf("request %d: %+v; want none that counts", i, a.answer)
			}
			if a.err != nil && !errors.Is(a.err, node.ErrNotSent) {
				t.Errorf("request %d: %v; want it marked as not sent", i, a.err)
			}
		}
	})
	t.Run("one of several is refused", func(t *testing.T) {
		first, second, _ := newMovers(t)
		first.refuses = func(args []string) bool { return about(args, "orders") }
		n := opened(t, first, second)
		all := batch(t, n, acquire("orders"), acquire("bills"))
		if a := all[0]; !errors.Is(a.err, node.ErrNotSent) || !strings.Contains(a.err.Error(), "another member") {
			t.Errorf("%+v; want that another member has the slot", a)
		}
		if a := all[1]; a.err != nil || a.answer.Status != node.Granted {
			t.Errorf("the other one: %+v", a)
		}
	})
	t.Run("a release has overtaken it", func(t *testing.T) {
		first, second, _ := newMovers(t)
		var acquires atomic.Int64
		first.refuses = func(args []string) bool { // the acquire, and not the release of the same name
			is := about(args, "orders") && args[2] == "3"
			if is {
				acquires.Add(1)
			}
			return is
		}
		n := opened(t, first, second)
		release := acquire("orders")
		release.Op = node.Release
		all := batch(t, n, acquire("orders"), release)
		if a := all[0]; !errors.Is(a.err, node.ErrNotSent) {
			t.Errorf("the acquire: %+v", a)
		}
		if a := all[1]; a.err != nil {
			t.Errorf("the release: %+v", a)
		}
		if sent := acquires.Load(); sent != 1 {
			t.Errorf("the acquire was sent %d times; once more makes a lease that its release does not end", sent)
		}
	})
}
