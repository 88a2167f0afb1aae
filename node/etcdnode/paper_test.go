//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// M. Kleppmann, "How to do distributed locking", on etcd: a holder is stopped for longer than
// its lease, goes on, and writes. The guard refuses it, also when all members were killed
// and started in between. (tests/paper_objections_test.go has the same for Valkey.)
func TestPausedHolderWritesLate(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	url := "etcd://" + e.Addrs()
	c := raw(t, e)
	g, err := etcdnode.NewGuard(c)
	if err != nil {
		t.Fatal(err)
	}
	first, lines := start(t, url, "late "+"http://"+e.Members[0].Addr())
	var old fence.Token
	if line := <-lines; !scan(line, "held %d", &old) {
		t.Fatalf("the first holder says %q", line)
	}
	first.Process.Signal(syscall.SIGSTOP)
	ctx := within(t, time.Minute)
	second, err := locker(t, url, 2*time.Second).Acquire(ctx, "counter")
	if err != nil {
		t.Fatal(err)
	}
	if second.Token() <= old {
		t.Errorf("the token %d after %d", second.Token(), old)
	}
	if _, err := g.Do(ctx, counterKey, second.Token(), clientv3.OpPut(counterKey, "second")); err != nil {
		t.Fatal(err)
	}
	for _, m := range e.Members {
		m.Kill()
	}
	e.Start(e.Members...)
	first.Process.Signal(syscall.SIGCONT)
	if line := <-lines; line != "late true" {
		t.Errorf("the first holder says %q; want its write refused", line)
	}
	eventually(t, func() error {
		_, err := g.Do(within(t, 2*time.Second), counterKey, old, clientv3.OpPut(counterKey, "late"))
		if errors.Is(err, fence.ErrStale) {
			return nil
		}
		return fmt.Errorf("a stale token: %w", err)
	})
	if a, err := c.Get(ctx, counterKey); err != nil || string(a.Kvs[0].Value) != "second" {
		t.Errorf("written: %v, %v", a, err)
	}
}

func scan(line, format string, into any) bool {
	n, err := fmt.Sscanf(line, format, into)
	return n == 1 && err == nil
}
