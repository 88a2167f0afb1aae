package admission

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// wire is a link over one plain connection, for what a store asks.
type wire struct {
	resp.Link
	conn    net.Conn
	replies *bufio.Reader
}

func dial(t *testing.T, s *testserver.Server) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(time.Minute)) // a hung test
	t.Cleanup(func() { conn.Close() })
	return &wire{conn: conn, replies: bufio.NewReader(conn)}
}

func (w *wire) Do(ctx context.Context, c resp.Command) (resp.Reply, error) {
	replies, err := w.DoMulti(ctx, c)
	if err != nil {
		return resp.Reply{}, err
	}
	return replies[0], replies[0].Err()
}

func (w *wire) DoMulti(_ context.Context, commands ...resp.Command) (all []resp.Reply, err error) {
	var text strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&text, "*%d\r\n", len(c))
		for _, word := range c {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if _, err := io.WriteString(w.conn, text.String()); err != nil {
		return nil, err
	}
	for range commands {
		said, err := w.read()
		if err != nil {
			return nil, err
		}
		reply, _ := replytest.Message(said)
		all = append(all, reply)
	}
	return all, nil
}

// read returns the bytes of one reply.
func (w *wire) read() ([]byte, error) {
	said, err := w.replies.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var n int
	fmt.Sscan(string(said[1:]), &n)
	switch said[0] {
	case '$':
		if n >= 0 {
			value := make([]byte, n+2)
			_, err = io.ReadFull(w.replies, value)
			said = append(said, value...)
		}
	case '*':
		for range n {
			value, err := w.read()
			if err != nil {
				return nil, err
			}
			said = append(said, value...)
		}
	}
	return said, err
}

// paused is a client that has looked at a server, and does nothing.
type paused struct {
	*store
	admit.Facts
}

var (
	own = admit.Terms{MaxTTL: time.Minute, Members: "a b c"}
	key = testserver.RegistersKey("fenlock:")
)

func looked(t *testing.T, s *testserver.Server) paused {
	t.Helper()
	keys, err := command.NewKeys("fenlock:")
	if err != nil {
		t.Fatal(err)
	}
	p := paused{store: &store{link: dial(t, s), keys: keys}}
	if p.Facts, err = p.store.Facts(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p paused) note(t *testing.T) bool {
	t.Helper()
	done, err := p.Note(t.Context(), p.Facts)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func (p paused) mark(t *testing.T, tokens map[int]fence.Token) bool {
	t.Helper()
	err := p.Raise(t.Context(), p.Facts, tokens)
	if err != nil {
		t.Fatal(err)
	}
	done, err := p.Mark(t.Context(), p.Facts, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// each runs a test on each kind of server, which has another one beside it.
func each(t *testing.T, test func(t *testing.T, s, other *testserver.Server)) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		all := testserver.Group(t, kind, 2, "repl-diskless-sync-delay 0")
		test(t, all[0], all[1])
	})
}

// The whole way, and the same by a client that was slower: it does nothing to a server that votes.
func TestStepsOfTwoClients(t *testing.T) {
	each(t, func(t *testing.T, s, _ *testserver.Server) {
		s.Do("HSET", key, "admitted", "before", "maxttl", "60000", "members", "a b c", "format", "3", "durable", "1", "7",
			"5")
		slow := looked(t, s)
		if slow.Votes || !slow.Marked || slow.Kept || slow.Terms != own || !slow.Recorded {
			t.Fatalf("%+v", slow.Facts)
		}
		if !slow.note(t) || s.Do("HGET", key, "admitted") != "(nil)" {
			t.Fatal("the mark of before is there")
		}
		noted := looked(t, s)
		if noted.Marked || !noted.Counted || noted.Terms != own {
			t.Fatalf("%+v", noted.Facts)
		}
		second := looked(t, s)
		if !noted.mark(t, map[int]fence.Token{7: 100, 8: 3}) {
			t.Fatal("not marked")
		}
		after := s.Do("HGETALL", key)
		if registers := s.Do("HMGET", key, "7", "8", "noticed"); registers != "[100 3 (nil)]" {
			t.Errorf("the registers are %s", registers)
		}
		if second.mark(t, map[int]fence.Token{7: 101}) {
			t.Error("marked once more, by a client that was second")
		}
		if slow.note(t) {
			t.Error("a client that looked before has noted that a server is out which votes")
		}
		if got := s.Do("HGETALL", key); got != after {
			t.Errorf("it was %s, and is %s", after, got)
		}
		if votes := looked(t, s); !votes.Votes || votes.Kept {
			t.Errorf("%+v", votes.Facts)
		}
		// Lower ones lower nothing, whichever client comes with them.
		slow.mark(t, map[int]fence.Token{7: 50})
		if got := s.Do("HGET", key, "7"); got != "100" {
			t.Errorf("the register is %s", got)
		}
	})
}

// A note stays, unless a mark was there since: until then leases could be made.
func TestNoteIsOfTheLastMark(t *testing.T) {
	each(t, func(t *testing.T, s, _ *testserver.Server) {
		first := looked(t, s)
		long := func() string {
			info := s.Do("INFO", "replication")
			return testserver.Field(info, "master_replid") + " 1000"
		}()
		s.Do("HSET", key, "noticed", long)
		if !first.note(t) || s.Do("HGET", key, "noticed") != long {
			t.Errorf("noted once more: %s", s.Do("HGET", key, "noticed"))
		}
		s.Do("HSET", key, "admitted", "before")
		if !first.note(t) || s.Do("HGET", key, "noticed") == long || s.Do("HGET", key, "admitted") != "(nil)" {
			t.Errorf("the note is %s, and a mark was there since", s.Do("HGET", key, "noticed"))
		}
		// The clock was set back since.
		ahead := strings.Replace(long, " 1000", " 9000000000000", 1)
		s.Do("HSET", key, "noticed", ahead)
		if !first.note(t) || s.Do("HGET", key, "noticed") == ahead {
			t.Error("a note of the future stays")
		}
	})
}

// What has become of a server while a client was paused between two steps: nothing is done to it.
func TestStepsOnAServerThatHasChanged(t *testing.T) {
	each(t, func(t *testing.T, s, replica *testserver.Server) {
		follow := func(one, another *testserver.Server) {
			host, port, _ := net.SplitHostPort(another.Addr())
			one.Do("REPLICAOF", host, port)
			for range 500 {
				if one.Info("replication", "master_link_status") == "up" {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			one.Do("REPLICAOF", "NO", "ONE")
		}
		for _, c := range []struct {
			what   string
			change func()
			notes  bool // that does no harm
			says   string
		}{
			{"has got its first replica", func() { follow(replica, s) }, false, ""},
			{"has followed its replica", func() { follow(replica, s); follow(s, replica) }, false, ""},
			{"flushed", func() { s.Do("FLUSHALL") }, true, ""},
			{"flushed, and looked at by another client", func() { s.Do("FLUSHALL"); looked(t, s) }, true, ""},
			{"has followed another one", func() { replica.Do("FLUSHALL"); follow(s, replica) }, false, ""},
			{"started again", func() { s.Kill(); s.Restart() }, false, ""},
			{"has other terms", func() { s.Do("HSET", key, "maxttl", "1000") }, true, ""},
			{"has other members", func() { s.Do("HSET", key, "members", "a b d") }, true, ""},
			{"a newer program has it", func() { s.Do("HSET", key, "format", "4") }, false, "format 4"},
		} {
			s.Do("FLUSHALL")
			p := looked(t, s)
			c.change()
			again := p
			again.store = &store{link: dial(t, s), keys: p.keys} // a start ends connections
			before := s.Do("HGETALL", key)
			done, err := again.Note(t.Context(), p.Facts)
			if done != c.notes || (err != nil) != (c.says != "") ||
				err != nil && !(errors.Is(err, node.ErrMisconfigured) && strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: noted %v, %v", c.what, done, err)
			}
			if got := s.Do("HGETALL", key); !c.notes && got != before {
				t.Errorf("%s: it was %s, and is %s", c.what, before, got)
			}
			s.Do("HDEL", key, "noticed")
			before = s.Do("HGETALL", key)
			if err = again.Raise(t.Context(), p.Facts, map[int]fence.Token{9: 9}); err == nil {
				done, err = again.Mark(t.Context(), p.Facts, own, nil)
			}
			if done || (err != nil) != (c.says != "") ||
				err != nil && !(errors.Is(err, node.ErrMisconfigured) && strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: marked %v, %v", c.what, done, err)
			}
			if got := s.Do("HGETALL", key); got != before {
				t.Errorf("%s: it was %s, and is %s", c.what, before, got)
			}
		}
	})
}

// Bad input: nothing is written, and the error says what is wrong.
func TestFactsThatCannotBe(t *testing.T) {
	each(t, func(t *testing.T, s, _ *testserver.Server) {
		p := looked(t, s)
		for _, c := range []struct{ field, value, says string }{
			{"format", "4", "upgrade this program"}, {"format", "soon", "no fenlock wrote"},
			{"maxttl", "soon", "no number of milliseconds"}, {"maxttl", "-5", "no number of milliseconds"},
			{"maxttl", "0", "no number"},
			{"maxttl", "1e3", "no number"}, {"maxttl", "9223372036854775807", "no number"}, {"maxttl", "+5", "no number"},
		} {
			s.Do("FLUSHALL")
			s.Do("HSET", key, c.field, c.value)
			before := s.Do("HGETALL", key)
			if c.field != "format" {
				s.Do("HSET", key, "candidate", "there")
				before = s.Do("HGETALL", key)
			}
			f, err := p.store.Facts(t.Context())
			if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s %s: %+v, %v; want an error with %q", c.field, c.value, f, err, c.says)
			}
			if got := s.Do("HGETALL", key); got != before {
				t.Errorf("%s %s: it was %s, and is %s", c.field, c.value, before, got)
			}
		}
	})
}
