package tests

import (
	"context"
	"crypto/rand"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/go-redsync/redsync/v4"
)

// lasting is an old lock that outlives its holder for as long as is said when it is taken and
// extended.
type lasting struct {
	extend  func(ctx context.Context, d time.Duration) error
	release func(ctx context.Context) error
}

// library takes such locks without waiting.
type library = func(ctx context.Context, name string, d time.Duration) (lasting, error)

// libraries has the clients on the same keys, and how many servers they use.
var libraries = map[string]struct {
	servers int
	on      func(t *testing.T, servers []*testserver.Server) library
}{
	"redsync":   {3, redsyncLasting},
	"redislock": {1, redislockLasting},
	"SET NX PX": {1, setLasting},
}

func redsyncLasting(t *testing.T, servers []*testserver.Server) library {
	rs := redsyncOn(t, servers)
	refused := func(ok bool, err error) error {
		if !ok && err == nil {
			err = errors.New("refused")
		}
		return err
	}
	return func(ctx context.Context, name string, d time.Duration) (lasting, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(d), redsync.WithTries(1))
		if err := m.LockContext(ctx); err != nil {
			return lasting{}, err
		}
		return lasting{
			func(ctx context.Context, d time.Duration) error {
				return refused(rs.NewMutex(name, redsync.WithExpiry(d), redsync.WithValue(m.Value())).ExtendContext(ctx))
			},
			func(ctx context.Context) error { return refused(m.UnlockContext(ctx)) },
		}, nil
	}
}

func redislockLasting(t *testing.T, servers []*testserver.Server) library {
	client := operate(servers[0]) // which may do more than the servers let fenlock
	t.Cleanup(func() { client.Close() })
	c := redislock.New(client)
	return func(ctx context.Context, name string, d time.Duration) (lasting, error) {
		k, err := c.Obtain(ctx, name, d, nil)
		if err != nil {
			return lasting{}, err
		}
		return lasting{
			func(ctx context.Context, d time.Duration) error { return k.Refresh(ctx, d, nil) },
			k.Release,
		}, nil
	}
}

// What many have written themselves: a random value, and scripts that compare it.
func setLasting(t *testing.T, servers []*testserver.Server) library {
	c := operate(servers[0])
	t.Cleanup(func() { c.Close() })
	return func(ctx context.Context, name string, d time.Duration) (lasting, error) {
		value := rand.Text()
		if ok, err := c.SetNX(ctx, name, value, d).Result(); !ok || err != nil {
			return lasting{}, errors.Join(errors.New("refused"), err)
		}
		compare := func(ctx context.Context, then string, more ...any) error {
			n, err := c.Eval(ctx, `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call(`+then+`) end return 0`,
				[]string{name}, append([]any{value}, more...)...).Int()
			if n != 1 && err == nil {
				err = errors.New("it is somebody else's")
			}
			return err
		}
		return lasting{
			func(ctx context.Context, d time.Duration) error {
				return compare(ctx, `"pexpire", KEYS[1], ARGV[2]`, d.Milliseconds())
			},
			func(ctx context.Context) error { return compare(ctx, `"del", KEYS[1]`) },
		}, nil
	}
}

// Locks that expire and that are extended, of both sides: each respects the other's.
func TestMigrationExpiry(t *testing.T) {
	t.Parallel()
	command := testserver.Fenlock(t)
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		for library, with := range libraries {
			t.Run(library, func(t *testing.T) {
				t.Parallel()
				servers, ours := plainGroupFor(t, kind, with.servers, expiryTTL)
				take := with.on(t, servers)
				t.Run("old", func(t *testing.T) { expireOld(t, take, ours) })
				t.Run("fenlock's", func(t *testing.T) { expireOurs(t, take, ours, command, servers) })
			})
		}
	})
}

// expiryTTL is fenlock's, long enough for a machine on which everything waits for its turn.
const expiryTTL = 4 * time.Second

// expireOld has an old lock extended, and then expire.
func expireOld(t *testing.T, take library, ours *fenlock.Locker) {
	ctx := bounded(t)
	const first = 2 * time.Second
	old, err := take(ctx, "orders/42", first)
	if err == nil {
		err = old.extend(ctx, time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(first)
	heldByAnother(t, ours, "orders/42")
	if err := old.extend(ctx, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	lock := acquire(t, ours, "orders/42") // it is not released
	if err := old.extend(ctx, time.Minute); err == nil {
		t.Error("the old lock was extended after it had expired, and fenlock had taken it")
	}
	if err := old.release(ctx); err == nil {
		t.Error("the old client released what fenlock holds")
	}
	if err := lock.Extend(ctx); err != nil {
		t.Error(err)
	}
	release(t, lock)
}

// expireOurs has fenlock extend a lock for longer than it would last, and has who holds one be
// killed.
func expireOurs(t *testing.T, take library, ours *fenlock.Locker, command string, servers []*testserver.Server) {
	ctx := bounded(t)
	lock := acquire(t, ours, "orders/42")
	time.Sleep(2 * expiryTTL)
	if _, err := take(ctx, "orders/42", time.Minute); err == nil {
		t.Error("the old client took what fenlock has extended")
	}
	if err := lock.Extend(ctx); err != nil {
		t.Error(err)
	}
	release(t, lock)

	arguments := []string{"run", "--prefix", "", "--ttl", expiryTTL.String(), "--max-ttl", expiryTTL.String(), "orders/42",
		"-c", "echo held && exec sleep 60"}
	cmd := exec.Command(command, arguments...)
	cmd.Env = append(cmd.Environ(), "FENLOCK_NODES="+strings.Join(urls(servers), ","))
	_, output := startProcess(t, cmd)
	if !output.Scan() || output.Text() != "held" {
		t.Fatalf("fenlock run: %q, %v", output.Text(), output.Err())
	}
	if _, err := take(ctx, "orders/42", time.Minute); err == nil {
		t.Error("the old client took what fenlock run holds")
	}
	cmd.Process.Signal(syscall.SIGKILL)
	var old lasting
	eventually(t, func() (err error) {
		old, err = take(ctx, "orders/42", time.Minute)
		return err
	})
	heldByAnother(t, ours, "orders/42")
	if err := old.release(ctx); err != nil {
		t.Error(err)
	}
}

// A DEL that compares nothing deletes whatever is there: who is late takes fenlock's lock away,
// too. So the page has it replaced first. fenlock notices when it extends.
func TestMigrationFromPlainDEL(t *testing.T) {
	t.Parallel()
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers, ours := plainGroup(t, kind, 1)
		ctx, take := bounded(t), setLasting(t, servers)
		late, err := take(ctx, "orders/42", time.Minute)
		if err == nil {
			err = late.extend(ctx, 50*time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
		lock := acquire(t, ours, "orders/42")
		var next lasting
		eventually(t, func() (err error) { // fenlock may extend it in between, and lease it anew
			servers[0].Do("DEL", "orders/42")
			next, err = take(ctx, "orders/42", time.Minute)
			return err
		})
		if err := lock.Extend(ctx); !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("fenlock extends what was deleted, and taken by another: %v", err)
		}
		if err := next.release(ctx); err != nil {
			t.Error(err)
		}
	})
}
