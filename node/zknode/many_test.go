package zknode

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// asking counts what is asked for of registers.
type asking struct {
	net.Conn
	registers *atomic.Int64
}

func (a asking) Write(b []byte) (int, error) {
	a.registers.Add(int64(bytes.Count(b, []byte("/stripes/"))))
	return a.Conn.Write(b)
}

// After a connection was lost, all who have locks extend them at once: what the servers have
// kept is compared by one of them.
func TestManyExtendOverANewConnection(t *testing.T) {
	const locks = 100
	var conns []net.Conn
	registers := new(atomic.Int64)
	n := open(t, freshURL(), WithDial(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dialTCP(ctx, address)
		conns = append(conns, conn)
		return asking{conn, registers}, err
	}))
	ready(t, n)
	var all []node.Request
	for i := range locks {
		r := request(fmt.Sprint("lock ", i), "me", 0)
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		all = append(all, r)
	}
	link := linkOf(t, n)
	conns[len(conns)-1].Close()
	<-link.Done()
	registers.Store(0)
	var extending sync.WaitGroup
	for _, r := range all {
		extending.Go(func() {
			if a, err := n.Do(t.Context(), as(node.Extend, r)); err != nil || a.Status != node.Granted {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	extending.Wait()
	// Each once to compare, once to read, and once to write; a few more times, if the first
	// connection was not the last.
	if asked := registers.Load(); asked > 10*locks {
		t.Errorf("%d locks were extended, and registers asked for %d times", locks, asked)
	}
}
