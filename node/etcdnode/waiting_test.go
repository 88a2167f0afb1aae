//go:build unix

package etcdnode_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Eight processes count, under one lock, while processes are killed and stopped
// and so are members of the cluster. No increment is lost, and the tokens grow.
func TestProcessesCount(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	// The data is in another cluster, where nothing happens. etcd's own client asks its members in
	// turn, so one of three requests would go to the member that is stopped.
	data := testserver.StartEtcd(t, 1)
	c := raw(t, data)
	url := "etcd://" + e.Addrs()
	type process struct {
		pid   int
		lines <-chan string
	}
	var all []process
	begin := func() {
		cmd, lines := start(t, url, "http://"+data.Addrs())
		all = append(all, process{cmd.Process.Pid, lines})
	}
	for range 8 {
		begin()
	}
	count := func() int {
		n := -1
		eventually(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a, err := c.Get(ctx, counterKey)
			if err != nil {
				return err
			}
			if n = 0; len(a.Kvs) > 0 {
				first, _, _ := strings.Cut(string(a.Kvs[0].Value), " ")
				n, err = strconv.Atoi(first)
			}
			return err
		})
		return n
	}
	done, maybe, notes := 0, 0, 0
	drain := func() {
		for _, p := range all {
			for more := true; more; {
				select {
				case line, ok := <-p.lines:
					more = ok
					switch {
					case strings.HasPrefix(line, "done"):
						done++
					case strings.HasPrefix(line, "maybe"):
						maybe++
					case strings.HasPrefix(line, "error"):
						t.Error(line)
					case ok:
						notes++
						if notes <= 10 {
							t.Log(line)
						}
					}
				default:
					more = false
				}
			}
		}
	}
	goesOn := func(after string, by int) {
		t.Helper()
		from := count()
		for range 300 {
			if count() >= from+by {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		drain()
		if count() < from+by {
			t.Fatalf("after %s: %d, which was %d", after, count(), from)
		}
		t.Logf("after %s: %d", after, count())
	}
	goesOn("the start", 100)
	for i := range 2 {
		syscall.Kill(all[i].pid, syscall.SIGKILL)
		begin()
	}
	goesOn("two processes were killed", 50)
	syscall.Kill(all[2].pid, syscall.SIGSTOP)
	goesOn("a process was stopped", 50)
	syscall.Kill(all[2].pid, syscall.SIGCONT)
	m := leader(t, e)
	m.Kill()
	goesOn("the leader was killed", 50)
	e.Start(m)
	m = leader(t, e)
	m.Pause()
	goesOn("the leader was stopped", 50)
	m.Resume()
	goesOn("it went on", 50)
	for _, p := range all {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	time.Sleep(100 * time.Millisecond)
	drain()
	// A process that was killed may have written, and not said so.
	if n := count(); n < done || n > done+maybe+len(all) {
		t.Errorf("the counter is %d after %d increments, and %d without an answer", n, done, maybe)
	}
}

// A listener's etcd lease is renewed, also after the member that was asked hangs; when it is gone,
// the client registers anew, and is told that it may have missed something.
func TestListenerStays(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	n, err := etcdnode.Open("etcd://" + e.Addrs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	missed := make(chan bool, 100)
	if err := n.Listen(within(t, 20*time.Second), client1, func(string) { missed <- true }); err != nil {
		t.Fatal(err)
	}
	c := raw(t, e)
	lease := func() (clientv3.LeaseID, error) {
		a, err := c.Get(within(t, time.Second), etcdnode.DefaultPrefix+"wake/"+client1)
		if err != nil || len(a.Kvs) == 0 {
			return 0, fmt.Errorf("it is not there: %v", err)
		}
		return clientv3.LeaseID(a.Kvs[0].Lease), nil
	}
	renewed := func(when string) {
		t.Helper()
		var of clientv3.LeaseID
		var least int64
		eventually(t, func() error {
			id, err := lease()
			if err != nil {
				return err
			}
			left, err := c.TimeToLive(within(t, time.Second), id)
			switch {
			case err != nil:
				return err
			case id != of:
				of, least = id, left.TTL // on a busy machine it may have ended
			case left.TTL > least:
				return nil
			}
			least = left.TTL
			return fmt.Errorf("%s: %d s are left of its lease", when, least)
		})
	}
	renewed("at first")
	m := leader(t, e)
	m.Pause()
	renewed("while the leader hangs")
	m.Resume()
	for len(missed) > 0 {
		<-missed
	}
	eventually(t, func() error {
		id, err := lease()
		if err == nil {
			_, err = c.Revoke(within(t, time.Second), id)
		}
		return err
	})
	select {
	case <-missed:
	case <-time.After(time.Minute):
		t.Error("its lease was revoked, and it has not noticed")
	}
	renewed("after it was revoked")
}
