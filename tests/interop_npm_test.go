//go:build npm

package tests

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// npmModules names the folder in which "npm install" was run on npm/package.json;
// the test runs it in a temporary one if it is empty.
const npmModules = "FENLOCK_NPM_FOLDER"

// The npm package redlock, both of its lines, and fenlock lock each other out on the same key.
// Neither removes the other's lease, and what expires is free for the other. Clients of one come
// and go while the other works.
func TestNPMRedlock(t *testing.T) {
	folder := os.Getenv(npmModules)
	if folder == "" {
		folder = t.TempDir()
		for _, name := range []string{"package.json", "lock.js"} {
			text, err := os.ReadFile(filepath.Join("npm", name))
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--loglevel=error")
		install.Dir = folder
		if output, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm install: %v\n%s", err, output)
		}
	}
	command := testserver.Fenlock(t)
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		for _, version := range []string{"4", "5"} {
			t.Run("redlock "+version, func(t *testing.T) {
				const name = "orders/42"
				servers, ours := plainGroup(t, kind, 3)
				theirs := startNode(t, folder, version, name, servers)
				ctx := bounded(t)

				theirs.do("lock 60000", "locked")
				heldByAnother(t, ours, name)
				theirs.do("unlock", "released")

				lock := acquire(t, ours, name)
				theirs.do("lock 60000", "refused")
				theirs.do("unlock", "failed") // its old one
				if err := lock.Extend(ctx); err != nil {
					t.Errorf("fenlock's lock after redlock was refused: %v", err)
				}
				release(t, lock)
				theirs.do("lock 60000", "locked")
				theirs.do("unlock", "released")

				expireOld(t, theirs.take, ours)
				expireOurs(t, theirs.take, ours, command, servers)
				theirs.change(ours, name)
			})
		}
	})
}

// nodeProcess is npm/lock.js with one lock.
type nodeProcess struct {
	t      *testing.T
	input  io.Writer
	output *bufio.Scanner
}

func startNode(t *testing.T, folder, version, name string, servers []*testserver.Server) *nodeProcess {
	t.Helper()
	// its scripts say EXISTS, which fenlock's do not need
	arguments := []string{"lock.js", version, name, testserver.Operator}
	for _, s := range servers {
		arguments = append(arguments, s.Addr())
	}
	cmd := exec.Command("node", arguments...)
	cmd.Dir = folder
	input, output := startProcess(t, cmd)
	return &nodeProcess{t: t, input: input, output: output}
}

func (p *nodeProcess) do(command, want string) {
	p.t.Helper()
	fmt.Fprintln(p.input, command)
	if !p.output.Scan() {
		p.t.Fatalf("%s: node ended: %v", command, p.output.Err())
	}
	if got := p.output.Text(); got != want {
		p.t.Errorf("%s: %s, want %s", command, got, want)
	}
}

// take takes the lock as the libraries of migration_expiry_test.go do.
func (p *nodeProcess) take(_ context.Context, _ string, d time.Duration) (lasting, error) {
	ask := func(command, want string) error {
		fmt.Fprintln(p.input, command)
		if !p.output.Scan() || p.output.Text() != want {
			return fmt.Errorf("%s: %q, %v", command, p.output.Text(), p.output.Err())
		}
		return nil
	}
	return lasting{
		func(_ context.Context, d time.Duration) error {
			return ask(fmt.Sprint("extend ", d.Milliseconds()), "extended")
		},
		func(context.Context) error { return ask("unlock", "released") },
	}, ask(fmt.Sprint("lock ", d.Milliseconds()), "locked")
}

// change has fenlock's clients come to the one on node while all work, and go again: no two are in.
func (p *nodeProcess) change(ours *fenlock.Locker, name string) {
	p.t.Helper()
	var inside, theirs, mine atomic.Int64
	enter := func() {
		if n := inside.Add(1); n != 1 {
			p.t.Errorf("%d have the lock at a time", n)
		}
	}
	fmt.Fprintln(p.input, "work")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for p.output.Scan() && p.output.Text() != "worked" {
			switch p.output.Text() {
			case "in":
				enter()
			case "out": // written before it is released
				inside.Add(-1)
				theirs.Add(1)
			default:
				p.t.Errorf("redlock: %s", p.output.Text())
			}
		}
	}()
	more := func(of *atomic.Int64) {
		p.t.Helper()
		enough := of.Load() + 5
		eventually(p.t, func() error {
			if n := of.Load(); n < enough {
				return fmt.Errorf("one kind does not get the lock: %d of %d", n, enough)
			}
			return nil
		})
	}
	more(&theirs)
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for ctx.Err() == nil {
				lock, err := ours.Acquire(ctx, name)
				if err != nil {
					continue
				}
				enter()
				time.Sleep(rand.N(5 * time.Millisecond))
				inside.Add(-1)
				if err := lock.Release(context.Background()); err != nil {
					p.t.Error(err)
				}
				mine.Add(1)
				time.Sleep(rand.N(30 * time.Millisecond))
			}
		})
	}
	more(&mine)
	more(&theirs)
	cancel()
	clients.Wait()
	more(&theirs)
	fmt.Fprintln(p.input, "enough")
	<-ended
}
