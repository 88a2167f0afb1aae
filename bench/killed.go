package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// killed is how long the next waiter's command takes to begin after a kill. The holder of a lock of
// this machine is killed, and what it has started.
type killedResult struct{ fenlock, flock []time.Duration }

// queueing is how long a process has to begin to wait.
const queueing = 100 * time.Millisecond

func runKilled(ctx context.Context, b *bench, _ []contender) (*killedResult, error) {
	p, err := buildPrograms(ctx)
	defer os.RemoveAll(p.folder)
	if err != nil {
		return nil, err
	}
	p.environment = append(p.environment, "FENLOCK_NODES=local")
	r := &killedResult{}
	for range b.size.starts {
		for _, of := range []struct {
			into *[]time.Duration
			lock []string
		}{
			{&r.flock, []string{"flock", filepath.Join(p.folder, "killed")}},
			{&r.fenlock, []string{p.fenlock, "run", "killed", "--"}},
		} {
			d, err := p.killed(ctx, of.lock)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", of.lock, err)
			}
			*of.into = append(*of.into, d)
		}
	}
	return r, nil
}

// killed kills the holder of a lock that another process waits for, and returns how long it took
// until the command of that had begun.
func (p programs) killed(ctx context.Context, lock []string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := func(script string) (*exec.Cmd, *bufio.Reader, error) {
		cmd := exec.CommandContext(ctx, lock[0], append(lock[1:len(lock):len(lock)], "sh", "-c", script)...)
		cmd.Env = p.environment
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		return cmd, bufio.NewReader(out), err
	}
	holder, says, err := begin("echo $$; exec sleep 1000")
	if err != nil {
		return 0, err
	}
	defer holder.Wait()
	var command int
	if _, err := fmt.Fscan(says, &command); err != nil {
		return 0, err
	}
	defer syscall.Kill(command, syscall.SIGKILL)
	next, says, err := begin("echo begun")
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, queueing); err != nil {
		return 0, errors.Join(err, next.Wait())
	}
	begun := time.Now()
	if err := errors.Join(holder.Process.Kill(), syscall.Kill(command, syscall.SIGKILL)); err != nil {
		return 0, err
	}
	_, err = says.ReadString('\n')
	took := time.Since(begun)
	return took, errors.Join(err, next.Wait())
}

func (r *killedResult) report(*bench) *table {
	t := &table{
		title: "killed: from kill -9 of the holder and its command until the next command has begun, fenlock run and flock",
		method: fmt.Sprintf("%d rounds, in turns; the lock is of this machine; the next one has waited for %v",
			len(r.fenlock), queueing),
		header: []string{"", "median", "p10", "p90", "÷ flock"},
	}
	for _, row := range []struct {
		name string
		s    []time.Duration
	}{{"fenlock run", r.fenlock}, {"flock", r.flock}} {
		t.row(row.name, millis(median(row.s)), millis(percentile(row.s, 0.1)), millis(percentile(row.s, 0.9)),
			spread(ratios(row.s, r.flock)))
	}
	return t
}
