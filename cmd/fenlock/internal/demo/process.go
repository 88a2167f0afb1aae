//go:build linux || darwin || freebsd

package demo

import (
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is one that the demo has started, in a group of its own: Ctrl-C is for the
// demo, which ends it.
type process struct {
	pid    int
	done   chan struct{} // closed when it has ended
	keeper *keeper
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
	p.keeper.groups = slices.DeleteFunc(p.keeper.groups, func(g string) bool { return g == strconv.Itoa(-p.pid) })
	p.keeper.write()
}

// keeper is a shell that outlives a demo that is killed, and ends what that has started. It reads,
// from a pipe that only the demo has open, which processes there are. It acts when the pipe ends. A
// signal at the parent's death (Linux, FreeBSD) would do the same, but for the folder, and not on
// macOS.
type keeper struct {
	pipe   io.WriteCloser
	cmd    *exec.Cmd
	groups []string // of processes, as kill has them: "-4711"
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

// launch starts a command.
func (k *keeper) launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, done: make(chan struct{}), keeper: k}
	k.groups = append(k.groups, strconv.Itoa(-p.pid))
	k.write()
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// write needs no error: without a keeper the demo ends its processes itself all the same.
func (k *keeper) write() { io.WriteString(k.pipe, strings.Join(k.groups, " ")+"\n") }

// dismiss lets it go: nothing is left.
func (k *keeper) dismiss() {
	io.WriteString(k.pipe, "done\n")
	k.pipe.Close()
	k.cmd.Wait()
}
