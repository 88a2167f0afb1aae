package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// exports has the process of startClient be an exporter: see runExporter.
const exports = "export"

// startExporter starts a process that holds the lock "orders", and returns it, and the token.
func startExporter(t *testing.T, servers []*testserver.Server, ttl time.Duration) (*client, fmt.Stringer) {
	t.Helper()
	c := startClient(t, urls(servers), exports, ttl.String())
	return c, c.token()
}

// runExporter acquires "orders", prints "token N", waits for a line, exports the lock and prints
// the text. It waits for a line again, and prints what extending and releasing it come to.
func runExporter(urls, arguments []string) error {
	config, err := newConfig(urls)
	if err != nil {
		return err
	}
	if config.TTL, err = time.ParseDuration(arguments[0]); err != nil {
		return err
	}
	config.MaxTTL = config.TTL
	l, err := fenlock.New(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, "orders")
	if err != nil {
		return err
	}
	fmt.Println("token", lock.Token())
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	text, err := lock.Export(ctx)
	if err != nil {
		return err
	}
	fmt.Println(text)
	input.Scan()
	for _, err := range []error{context.Cause(lock.Context()), lock.Extend(ctx), lock.Release(ctx)} {
		fmt.Println(errors.Is(err, fenlock.ErrExported))
	}
	return nil
}

// waitInLine has a client wait for "orders".
func waitInLine(t *testing.T, servers []*testserver.Server, change ...func(*fenlock.Config)) <-chan *fenlock.Lock {
	l := newLocker(t, urls(servers), change...)
	got := make(chan *fenlock.Lock, 1)
	go func() {
		lock, err := l.Acquire(t.Context(), "orders")
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		got <- lock
	}()
	awaitQueue(t, servers, lineOf("orders"), 1)
	return got
}

// One process exports its lock, and is killed, or stopped, or goes on; another one adopts it. A
// client that waits in the queue all the while gets it when that process releases it, and keeps it,
// whatever the exporter does then.
func TestHandoverBetweenProcesses(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		allowLong(servers)
		adopter := newLocker(t, urls(servers), long)
		for _, becomes := range []string{"killed", "stopped", "left alone"} {
			exporter, token := startExporter(t, servers, longTTL)
			next := waitInLine(t, servers, long)
			exporter.goOn()
			text := exporter.line()
			switch becomes {
			case "killed":
				exporter.signal(syscall.SIGKILL)
				exporter.cmd.Wait()
			case "stopped":
				exporter.stop()
			}
			adopted, err := adopter.Adopt(t.Context(), text)
			if err != nil {
				t.Fatalf("%s: %v", becomes, err)
			}
			if adopted.Token().String() != token.String() || adopted.Name() != "orders" {
				t.Errorf("%s: adopted %v with token %d instead of %s", becomes, adopted, adopted.Token(), token)
			}
			if _, err := adopter.TryAcquire(t.Context(), "orders"); !errors.Is(err, fenlock.ErrHeld) {
				t.Errorf("%s: %v", becomes, err)
			}
			if err := adopted.Extend(t.Context()); err != nil {
				t.Errorf("%s: %v", becomes, err)
			}
			if len(next) > 0 {
				t.Fatalf("%s: somebody got in between", becomes)
			}
			if err := adopted.Release(t.Context()); err != nil {
				t.Errorf("%s: %v", becomes, err)
			}
			k := <-next
			if k == nil || k.Token() <= adopted.Token() {
				t.Fatalf("%s: %v holds it next", becomes, k)
			}
			if _, err := adopter.Adopt(t.Context(), text); !errors.Is(err, fenlock.ErrLost) {
				t.Errorf("%s: adopted from somebody else: %v", becomes, err)
			}
			if becomes == "stopped" {
				exporter.signal(syscall.SIGCONT)
			}
			if becomes != "killed" {
				exporter.goOn()
				for range 3 {
					if line := exporter.line(); line != "true" {
						t.Errorf("%s: the exporter got an error that is not ErrExported", becomes)
					}
				}
				exporter.cmd.Wait()
			}
			if err := errors.Join(k.Extend(t.Context()), k.Release(t.Context())); err != nil {
				t.Errorf("%s: the next holder: %v", becomes, err)
			}
		}
	})
}

// A lock that is not adopted is free when its leases have ended, and stays what it is then.
func TestExportThatNobodyAdopts(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		exporter, token := startExporter(t, servers, groupTTL)
		next := waitInLine(t, servers)
		exporter.goOn()
		text := exporter.line()
		k := <-next
		if k == nil || k.Token().String() == token.String() {
			t.Fatalf("%v holds it next", k)
		}
		adopter := newLocker(t, urls(servers))
		if _, err := adopter.Adopt(t.Context(), text); !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("adopted from somebody else: %v", err)
		}
		if err := errors.Join(k.Extend(t.Context()), k.Release(t.Context())); err != nil {
			t.Error(err)
		}
		if _, err := adopter.Adopt(t.Context(), text); !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("adopted what was released: %v", err)
		}
		if k, err := adopter.TryAcquire(t.Context(), "orders"); err != nil {
			t.Errorf("what was not adopted is in the way: %v", err)
		} else if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
