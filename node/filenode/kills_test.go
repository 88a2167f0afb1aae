//go:build linux || darwin || freebsd

package filenode

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

func init() { roles["hurries"] = hurries }

// contended are names of one room.
var contended = names(8)

// hurries takes and releases the names until it is killed, and waits for them in between. It proves
// what it holds by a lock of the kernel's on a file. It leaves its token there: the next one must
// be larger.
func hurries(n *Node) {
	holder := node.Holder(fmt.Sprintf("%032x:", os.Getpid()))
	client := string(holder[:32])
	events := make(chan string, 100)
	if err := n.Listen(context.Background(), client, func(w string) { events <- w }); err != nil {
		fatal(err)
	}
	do := func(op node.Op, r node.Request) node.Answer {
		a, err := n.Do(context.Background(), as(op, r))
		if err != nil {
			fatal(err)
		}
		return a
	}
	fmt.Println("begins")
	for i := 1; ; i++ {
		which := rand.IntN(len(contended))
		name := contended[which]
		r := node.Request{Name: name, Holder: holder, TTL: time.Hour}
		r.Place = node.Place{Waiter: fmt.Sprint(client, ":", i), Stamp: time.Now().UnixNano() % (1 << 50)}
		a := do(node.Acquire, r)
		for a.Status == node.Held {
			select {
			case <-events:
			case <-time.After(10 * time.Millisecond):
			}
			a = do(node.Acquire, r)
		}
		proof, err := os.OpenFile(fmt.Sprint(n.path, ".", which), os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = syscall.Flock(int(proof.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err != nil {
			fatal(fmt.Sprint("two holders at once: ", err))
		}
		b, _ := io.ReadAll(proof)
		if last, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); uint64(a.Register) <= last {
			fatal(fmt.Sprint("granted ", uint64(a.Register), " after ", last))
		}
		if _, err := proof.WriteAt(fmt.Appendf(nil, "%20d", uint64(a.Register)), 0); err != nil {
			fatal(err)
		}
		r.Token, r.OwnToken = a.Register, a.Register
		do(node.Confirm, r)
		do(node.Extend, r)
		proof.Close()
		r.Place.Stamp = 0
		if got := do(node.Release, r); got.Status != node.Granted {
			fatal(fmt.Sprint("release: ", got.Status))
		}
	}
}

// Processes are killed at any moment, in the middle of a write too, which takes long as the room is
// large. The file is never damaged, no two hold a name, and tokens grow. Once the lock of a killed
// process is released by hand, the others go on.
func TestKilledAnywhere(t *testing.T) {
	n, path := newNode(t)
	with(t, n, contended[0], func(r *room) {
		for _, name := range names(len(contended) + 30)[len(contended):] { // 900 KiB
			r.Leases[name] = rule.Lease{Holder: node.Holder(strings.Repeat("x", 30<<10)), Expires: n.clock() + time.Hour}
		}
	})
	type process struct {
		*exec.Cmd
		stderr *strings.Builder
	}
	start := func() process {
		cmd, out, stderr := child(t, "hurries", path)
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "begins\n" {
			cmd.Wait()
			t.Fatalf("%q, %v: %s", line, err, stderr)
		}
		return process{cmd, stderr}
	}
	processes := []process{start()}
	cut, held := 0, 0
	random := rand.New(rand.NewPCG(1, 2))
	for i := range killedProcesses {
		if i == killedProcesses/2 { // before, no other one writes over what is torn; now some do, and wait for each other
			processes = append(processes, start(), start())
		}
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
		which := random.IntN(len(processes))
		killed := processes[which]
		killed.Process.Kill()
		if err := killed.Wait(); killed.stderr.Len() > 0 {
			t.Fatalf("%v: %s", err, killed.stderr)
		}
		var r *room
		if err := n.locked(t.Context(), roomOf(contended[0]), func() (err error) {
			some, err := torn(n, roomOf(contended[0]))
			if cut += some; err == nil {
				r, err = readRoom(n, &n.header, roomOf(contended[0]))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, name := range contended {
			l := r.Leases[name] // of it, or reserved for it
			if strings.Contains(string(l.Holder), fmt.Sprintf("%032x", killed.Process.Pid)) {
				held++
				a, err := n.Do(t.Context(), node.Request{Op: node.Release, Name: name, Holder: l.Holder})
				if err != nil || a.Status != node.Granted && !l.Holder.Reserves() { // a reservation may have ended
					t.Fatalf("%+v, %v", a, err)
				}
			}
		}
		processes[which] = start()
	}
	for _, p := range processes { // all go on
		p.Process.Kill()
		p.Wait()
	}
	if err := n.List(t.Context(), "", func(node.Lease) bool { return true }); err != nil {
		t.Error(err)
	}
	t.Logf("%d processes were killed, %d that held a name or had it reserved, %d in the middle of a write",
		killedProcesses, held, cut)
}

// torn returns how many copies of a room are incomplete.
func torn(n *Node, number int) (count int, err error) {
	for which := range 2 {
		h := make([]byte, head)
		if _, err := n.ReadAt(h, copyAt(0, number, which)); err != nil {
			return 0, err
		}
		body := make([]byte, binary.LittleEndian.Uint32(h[16:]))
		if _, err := n.ReadAt(body, bodyAt(int(h[12]), number, which)); err != nil && err != io.EOF {
			return 0, err
		}
		sum := func(b []byte, of []byte) bool {
			return binary.LittleEndian.Uint32(b) == sum(of)
		}
		if !sum(h, h[4:]) || !sum(h[20:], body) {
			count++
		}
	}
	return count, nil
}
