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

// runExporter acquires "orders", prints "token N", waits for a line, exports the lock and prints
// the text. It waits for a line again, and prints what extending and releasing it come to.
func runExporter(urls []string) error {
	config, err := newConfig(urls)
	if err != nil {
		return err
	}
	long(&config)
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

// One process exports its lock, and is killed, or stopped, or goes on; another one adopts it. A
// client that waits in the queue all the while gets it when that process releases it, and keeps it,
// whatever the exporter does then.
func TestHandoverBetweenProcesses(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		allowLong(servers)
		adopter := newLocker(t, urls(servers), long)
		for _, becomes := range []string{"killed", "stopped", "left alone"} {
			exporter := startClient(t, urls(servers), exports)
			token := exporter.token()
			waiter, next := newLocker(t, urls(servers), long), make(chan *fenlock.Lock, 1)
			go func() {
				lock, err := waiter.Acquire(t.Context(), "orders")
				if err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
				next <- lock
			}()
			awaitQueue(t, servers, lineOf("orders"), 1)
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
			if adopted.Token() != token || adopted.Name() != "orders" {
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
