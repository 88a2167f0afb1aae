// Command sizing measures what locks and waiters cost one server that runs with
// deploy/valkey/fenlock.conf: docs/operations.md, Sizing, has its figures. It takes about
// a minute, in deploy/check:
//
//	go run ./sizing
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

func main() {
	locks := flag.Int("locks", 20000, "how many locks are held at once")
	waiters := flag.Int("waiters", 500, "how many processes wait for one lock")
	cycles := flag.Int("cycles", 500, "how many locks are taken and released one after the other")
	held := flag.Duration("held", 20*time.Second, "how long the locks are held")
	flag.Parse()
	var out testserver.Outside
	defer out.Close()
	err := testserver.Try(func() error {
		measure(&out, *locks, *waiters, *cycles, *held)
		return nil
	})
	if err != nil {
		out.Close()
		fmt.Fprintln(os.Stderr, "sizing:", err)
		os.Exit(1)
	}
}

// server is the one that is measured. What fails ends the measurement.
type server struct {
	out          *testserver.Outside
	port, folder string
}

func (s *server) must(err error) {
	if err != nil {
		s.out.Fatal(err)
	}
}

func start(out *testserver.Outside) *server {
	s := &server{out, strconv.Itoa(testserver.FreePort(out)), out.TempDir()}
	conf, err := filepath.Abs("../valkey/fenlock.conf")
	s.must(err)
	path, err := exec.LookPath("valkey-server")
	s.must(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// For this machine only, for a minute: no passwords.
	p, err := testserver.Launch(ctx, out, s.folder, path,
		[]string{conf, "--aclfile", "", "--port", s.port, "--dir", s.folder, "--maxmemory", "0"},
		func() error { _, err := s.ask("INFO"); return err })
	out.Cleanup(p.Kill)
	s.must(err)
	return s
}

func (s *server) ask(command string) (string, error) {
	said, err := exec.Command("valkey-cli", "-p", s.port, command).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return strings.TrimSpace(string(said)), nil
}

// figures are what is read before and after.
type figures struct{ memory, cpu, file, clients float64 }

func (s *server) figures() figures {
	time.Sleep(time.Second) // buffers are given back
	info, err := s.ask("INFO")
	s.must(err)
	number := func(field string) float64 {
		n, err := strconv.ParseFloat(testserver.Field(info, field), 64)
		s.must(err)
		return n
	}
	return figures{memory: number("used_memory"), cpu: number("used_cpu_user") + number("used_cpu_sys"),
		file: number("aof_current_size"), clients: number("connected_clients")}
}

func (s *server) client() *fenlock.Locker {
	n, err := valkeynode.Open("valkey://127.0.0.1:" + s.port)
	s.must(err)
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, NewServers: true})
	s.must(err)
	return l
}

func measure(out *testserver.Outside, locks, waiters, cycles int, held time.Duration) {
	s := start(out)
	l := s.client()
	defer l.Close()
	ctx := context.Background()
	cycle := func(name string) error {
		lock, err := l.Acquire(ctx, name)
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	}
	// All registers there are: they stay.
	s.must(inParallel(locks, func(i int) error { return cycle(fmt.Sprint("registers/", i)) }))
	empty := s.figures()
	fmt.Printf("a server with its registers: %.1f MiB\n", empty.memory/(1<<20))

	began := time.Now()
	for i := range cycles {
		s.must(cycle(fmt.Sprint("one/", i)))
	}
	took := time.Since(began)
	after := s.figures()
	fmt.Printf("acquire and release, one after the other, each on the disk: %v, %.0f bytes of the append-only file\n",
		(took / time.Duration(cycles)).Round(time.Microsecond), (after.file-empty.file)/float64(cycles))

	s.must(inParallel(locks, func(i int) error {
		_, err := l.Acquire(ctx, fmt.Sprintf("held/with-a-name-of-thirty-two-%05d", i))
		return err
	}))
	full := s.figures()
	time.Sleep(held)
	later := s.figures()
	if keys, err := s.ask("DBSIZE"); err != nil || keys != strconv.Itoa(locks+1) {
		out.Fatalf("%s keys for %d locks: this machine is too slow to hold so many (%v)", keys, locks, err)
	}
	fmt.Printf("%d locks held by one process, names of 32 bytes, TTL 10 s: %.0f bytes a lock, %.1f %% of a core, %.1f kB of file a second\n",
		locks, (full.memory-empty.memory)/float64(locks), 100*(later.cpu-full.cpu)/(held.Seconds()+1),
		(later.file-full.file)/(held.Seconds()+1)/1000)
	fmt.Printf("connections of one process: %.0f\n", full.clients-1) // valkey-cli has one

	var wg sync.WaitGroup
	defer wg.Wait()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	for range waiters {
		other := s.client()
		wg.Go(func() {
			defer other.Close()
			other.Acquire(waiting, "held/with-a-name-of-thirty-two-00000")
		})
	}
	time.Sleep(15 * time.Second)
	crowded := s.figures()
	fmt.Printf("%d processes that wait for one lock: %.1f kB each, with their %.1f connections\n",
		waiters, (crowded.memory-later.memory)/float64(waiters)/1000, (crowded.clients-later.clients)/float64(waiters))
}

// inParallel calls f for each number below n, 64 at a time.
func inParallel(n int, f func(i int) error) error {
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				first = errors.Join(first, err)
			}
		})
	}
	wg.Wait()
	return first
}
