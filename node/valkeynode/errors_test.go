package valkeynode_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// failing checks that the node fails in a way that may pass: an error that
// names the node, and that does not match ErrMisconfigured.
func failing(t *testing.T, n *valkeynode.Node, says string) {
	t.Helper()
	eventually(t, func() error {
		a, err := n.Do(bounded(t), as(node.Acquire, request("failing", "one")))
		if err == nil {
			n.Do(bounded(t), as(node.Release, request("failing", "one")))
			return fmt.Errorf("answered %+v", a)
		}
		if !strings.Contains(err.Error(), n.String()) || !strings.Contains(err.Error(), says) {
			return fmt.Errorf("%w; want %q and the node's name in it", err, says)
		}
		if errors.Is(err, fenlock.ErrMisconfigured) {
			t.Fatalf("%v matches ErrMisconfigured, but may pass", err)
		}
		return nil
	})
}

// send sends a command that takes long, and does not wait for the reply.
func send(t *testing.T, s *testserver.Server, args ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "AUTH %s any\r\n*%d\r\n", testserver.Operator, len(args))
	for _, arg := range args {
		fmt.Fprint(conn, bulk(arg))
	}
}

func TestServerInTrouble(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		t.Run("disk", func(t *testing.T) {
			s, n := admitted(t, kind, groupTTL, "save 3600 1", "dbfilename dump.rdb")
			dir := strings.Fields(strings.Trim(s.Do("CONFIG", "GET", "dir"), "[]"))[1]
			// A folder where the file should be, because root may write anywhere.
			inTheWay := filepath.Join(dir, "dump.rdb")
			if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o755); err != nil {
				t.Fatal(err)
			}
			s.Do("BGSAVE")
			failing(t, n, "save to its disk")
			os.RemoveAll(inTheWay)
			s.Do("BGSAVE")
			acquire(t, n, request("after", "two"))
		})
		t.Run("long script", func(t *testing.T) {
			s, n := admitted(t, kind, groupTTL, "busy-reply-threshold 20")
			send(t, s, "EVAL", "while true do end", "0")
			failing(t, n, "long script")
			s.Do("SCRIPT", "KILL")
			acquire(t, n, request("after", "two"))
		})
		t.Run("loading", func(t *testing.T) {
			s, n := admitted(t, kind, groupTTL, "enable-debug-command yes", "loading-process-events-interval-bytes 1024")
			s.Do("DEBUG", "POPULATE", "5000")
			s.Do("CONFIG", "SET", "key-load-delay", "500")
			send(t, s, "DEBUG", "RELOAD")
			failing(t, n, "loading its data")
			acquire(t, n, request("after", "two"))
		})
		t.Run("key in use", func(t *testing.T) {
			s, n := admitted(t, kind, groupTTL)
			s.Do("RPUSH", "fenlock:list", "x")
			s.Do("SET", queueKey, "mine")
			_, acquire := n.Do(bounded(t), as(node.Acquire, request("list", "one")))
			_, inspect := n.Inspect(bounded(t), "list")
			_, queue := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
			for op, err := range map[string]error{"acquire": acquire, "inspect": inspect, "the queue": queue} {
				if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "holds something else") {
					t.Errorf("%s: %v", op, err)
				}
			}
			if s.Do("EXISTS", "fenlock:orders") != "0" || s.Do("GET", queueKey) != "mine" {
				t.Error("something was changed beside a queue's key that is in use")
			}
			// A list of locks leaves it out, and lists the others.
			names := 0
			if err := n.List(bounded(t), "", func(node.Lease) bool { names++; return true }); err != nil || names != 1 {
				t.Errorf("%d listed, %v", names, err)
			}
		})
	})
}

// Another program's value may have any length. It is held, and nothing more, and it is not read
// whole.
func TestALongForeignValueIsALease(t *testing.T) {
	server, n := admitted(t, testserver.Kinds(t)[0], groupTTL)
	server.Do("SET", "fenlock:a", strings.Repeat("x", 1<<20))
	a, err := n.Do(bounded(t), as(node.Acquire, request("a", "one")))
	if err != nil || a.Status != node.Held || a.HeldBy != "" {
		t.Errorf("%+v, %v", a, err)
	}
	var listed []node.Lease
	err = n.List(bounded(t), "a", func(l node.Lease) bool { listed = append(listed, l); return true })
	if err != nil || len(listed) != 1 || listed[0].Name != "a" || listed[0].Label != "" {
		t.Errorf("listed %+v, %v", listed, err)
	}
}
