package check

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// What docs/operations.md says of servers whose files are kept, moved, damaged and restored.

// shortMaxTTL is for tests that wait for quarantines. Its lock must not be lost because
// the machine is busy.
const shortMaxTTL = 3 * time.Second

func short(c *fenlock.Config) {
	c.TTL, c.MaxTTL, c.NewServers = shortMaxTTL, shortMaxTTL, true
}

// A file whose last write was cut off, as a loss of power leaves it. The server ends instead of
// going on with an open transaction. --fix cuts off what no client was told of.
func TestFileThatEndsInTheMiddle(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		c := newCluster(t, kind, 1)
		s := c.servers[0]
		l := c.client(t, newServers)
		first := takes(t, l, "orders/1")
		takes(t, l, "orders/2")
		s.Kill()
		files, err := filepath.Glob(filepath.Join(s.folder, "appendonlydir", "*.incr.aof"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v; want one file", files, err)
		}
		info, err := os.Stat(files[0])
		must(t, err)
		must(t, os.Truncate(files[0], info.Size()-5))
		if err := s.try(s.arguments()...); err == nil || !strings.Contains(s.Log(), "Unexpected end of file") {
			t.Fatalf("on half a transaction: %v: want it to end and to say why; its log:\n%s", err, s.Log())
		}
		fix := exec.Command(string(kind)+"-check-aof", "--fix",
			filepath.Join(s.folder, "appendonlydir", "appendonly.aof.manifest"))
		fix.Stdin = strings.NewReader("y\n")
		if said, err := fix.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		s.start()
		eventually(t, func() error { return first.Extend(t.Context()) })
		third := takes(t, l, "orders/3")
		s.Kill()
		s.start()
		eventually(t, func() error { return third.Extend(t.Context()) })
	})
}

// A server is upgraded on its files, here from Redis to Valkey where both are there: it
// has forgotten nothing and votes at once.
func TestUpgradeOnTheSameFiles(t *testing.T) {
	kinds := testserver.Kinds(t)
	c := newCluster(t, kinds[len(kinds)-1], 1)
	s := c.servers[0]
	l := c.client(t, newServers)
	held := takes(t, l, "orders/42")
	s.operate("BGREWRITEAOF")
	s.Stop()
	s.kind = kinds[0]
	s.start()
	eventually(t, func() error { return held.Extend(t.Context()) })
	if !s.votes() {
		t.Error("the server does not vote")
	}
}

// Backups of files are restored, of one server of three and of all. The mark of admission is taken
// out first, as the document says. Then no lock that is held is given away, and tokens grow.
func TestRestoredBackups(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run([]string{1: "one of three", 3: "three of three"}[n], func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, testserver.Kinds(t)[0], 3)
			l, other := c.client(t, short), c.client(t, short)
			must(t, takes(t, l, "orders/42").Release(t.Context()))
			eventually(t, func() error {
				for _, s := range c.servers {
					if !s.votes() {
						return errors.New("not admitted")
					}
				}
				return nil
			})
			backups := map[*server]string{}
			for _, s := range c.servers[:n] {
				backups[s] = t.TempDir()
				must(t, os.CopyFS(backups[s], os.DirFS(s.folder)))
			}
			held := takes(t, l, "orders/42") // the backups know nothing of it
			for s, backup := range backups {
				s.Kill()
				must(t, os.RemoveAll(filepath.Join(s.folder, "appendonlydir")))
				must(t, os.CopyFS(filepath.Join(s.folder, "appendonlydir"),
					os.DirFS(filepath.Join(backup, "appendonlydir"))))
				s.unmark()
			}
			before := time.Now()
			for s := range backups {
				s.start()
			}
			if n == 1 {
				// The two others hold it up: they know of it, and the third does not vote.
				eventually(t, func() error { return held.Extend(t.Context()) })
				eventually(t, func() error {
					if !c.servers[0].votes() {
						another := takes(t, other, "another")
						return errors.Join(errors.New("not admitted"), another.Release(t.Context()))
					}
					return nil
				})
				registers := strings.Fields(c.servers[0].operate("HVALS", testserver.RegistersKey(valkeynode.DefaultPrefix)))
				if !slices.Contains(registers, fmt.Sprint(held.Token())) {
					t.Errorf("the restored server does not know of token %d: %v", held.Token(), registers)
				}
				return
			}
			lock := takes(t, other, "orders/42")
			if out := time.Since(before); out < shortMaxTTL || held.Remaining() > 0 {
				t.Errorf("taken %v after the start, while the old holder has it for another %v", out, held.Remaining())
			}
			if lock.Token() <= held.Token() {
				t.Errorf("token %d after %d", lock.Token(), held.Token())
			}
		})
	}
}

// unmark takes the mark of admission out of a server's files, while no client can
// reach it.
func (s *server) unmark() {
	s.t.Helper()
	away := *s
	away.socket = filepath.Join(s.folder, "socket")
	away.start()
	if said := away.operate("HDEL", testserver.RegistersKey(valkeynode.DefaultPrefix), "admitted"); said != "1" {
		s.t.Fatalf("HDEL: %s", said)
	}
	away.Stop()
}
