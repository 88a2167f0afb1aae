//go:build linux || darwin || freebsd

package demo

import (
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one that the demo has started, in a group of its own: Ctrl-C is for the
// demo, which ends it.
type process struct {
	pid    int
	done   chan struct{} // closed when it has ended
	err    error         // how; read after done
	keeper *keeper
}

// launch starts a command.
func (k *keeper) launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, done: make(chan struct{}), keeper: k}
	p.keeper.know(p.pid)
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// alive reports whether it has not ended.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process and what it has started.
func (p *process) signal(s syscall.Signal) {
	if p.alive() {
		syscall.Kill(-p.pid, s)
	}
}

// kill ends it, stopped or not, and returns when it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
	p.keeper.forget(p.pid)
}

// leave waits for its own end for a moment, and kills it then.
func (p *process) leave() {
	select {
	case <-p.done:
	case <-time.After(time.Second):
	}
	p.kill()
}

// keeper is a shell that outlives a demo that is killed, and ends what that has started:
// it reads, from a pipe that only the demo has open, which processes there are, and acts
// when the pipe ends. A signal at the parent's death (Linux, FreeBSD) would do the same,
// but for the folder, and not on macOS.
type keeper struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd

	mu   sync.Mutex
	pids []int
}

// Each line has all processes that there are.
const keeperScript = `while read -r line; do
	[ "$line" = done ] && exit
	groups=$line
done
[ -z "$groups" ] || kill -s KILL -- $groups
rm -rf -- "$1"`

func newKeeper(folder string) (*keeper, error) {
	cmd := exec.Command("sh", "-c", keeperScript, "fenlock-demo-keeper", folder)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("a shell is needed, to end what the demo starts: %w", err)
	}
	return &keeper{pipe: pipe, cmd: cmd}, nil
}

func (k *keeper) know(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pids = append(k.pids, pid)
	k.write()
}

func (k *keeper) forget(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pids = slices.DeleteFunc(k.pids, func(p int) bool { return p == pid })
	k.write()
}

// write needs no error: without a keeper the demo ends its processes itself all the same.
func (k *keeper) write() {
	groups := make([]string, len(k.pids))
	for i, pid := range k.pids {
		groups[i] = strconv.Itoa(-pid)
	}
	io.WriteString(k.pipe, strings.Join(groups, " ")+"\n")
}

// dismiss lets it go: nothing is left.
func (k *keeper) dismiss() {
	io.WriteString(k.pipe, "done\n")
	k.pipe.Close()
	k.cmd.Wait()
}
