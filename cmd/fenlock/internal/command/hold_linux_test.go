package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// told reads one of hold's lines.
func (r *running) told(event string) (line holdLine) {
	r.t.Helper()
	text := r.line()
	if err := json.Unmarshal([]byte(text), &line); err != nil || line.Event != event {
		r.t.Fatalf("%q, %v: want %s", text, err, event)
	}
	return line
}

// The lock is the program's for as long as it keeps the pipe open, and until the deadline.
func TestHold(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "hold", "--ttl", "1s", "x")
	held := r.told("held")
	if now := clock.Now().Milliseconds(); held.Name != "x" || held.Token == 0 || held.Left > 1000 ||
		held.Deadline > now+1000 || held.Slot != nil {
		t.Errorf("at %d it is held as %+v", now, held)
	}
	if longer := r.told("extended"); longer.Token != held.Token || longer.Deadline <= held.Deadline {
		t.Errorf("extended: %+v after %+v", longer, held)
	}
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75)
	r.stdin.Close()
	if rest := r.rest(); !strings.HasSuffix(rest, fmt.Sprintf(`{"event":"released","token":%d}`+"\n", held.Token)) {
		t.Errorf("it said %q", rest)
	}
	r.want(0)
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(0)
}

// A lock that is broken is lost, and told as that.
func TestHoldIsBroken(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "hold", "--ttl", "1s", "x")
	r.told("held")
	h.start("fenlock", "release", "--force", "--yes", "x").want(0)
	lines := strings.Split(strings.TrimSpace(r.rest()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"event":"lost"`) || !strings.Contains(last, `"reason":"`) {
		t.Errorf("it said %q", lines)
	}
	r.want(76, "lost")
}

// A program that has read nothing but a deadline may rely on it. A signal ends the command when the
// deadline is over, or when the program has closed the pipe.
func TestHoldIsSignalled(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "hold", "--ttl", "1h", "--max-ttl", "1h", "x")
	r.told("held")
	r.signal(syscall.SIGTERM)
	if lost := r.told("lost"); !strings.Contains(lost.Reason, "signal") {
		t.Errorf("%+v", lost)
	}
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75)
	r.stdin.Close()
	r.want(128 + int(syscall.SIGTERM))
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(0)

	r = h.start("fenlock", "hold", "--ttl", "1s", "x")
	deadline := r.told("held").Deadline
	r.signal(syscall.SIGTERM)
	r.want(128 + int(syscall.SIGTERM))
	if now := clock.Now().Milliseconds(); now < deadline {
		t.Errorf("it ended at %d, before its deadline, %d", now, deadline)
	}
}

// The end of standard input ends the wait as well, and a second signal ends everything.
func TestHoldGivesUp(t *testing.T) {
	h := newHome(t)
	r := h.start("fenlock", "hold", "--ttl", "1h", "--max-ttl", "1h", "x")
	r.told("held")
	w := h.start("fenlock", "hold", "x")
	w.stdin.Close()
	w.want(75, "standard input ended")
	h.start("sh", "-c", "exec fenlock hold free </dev/null").want(75, "standard input ended")
	h.start("fenlock", "hold", "--no-wait", "x").want(75, "is held by")
	h.start("fenlock", "hold", "--no-wait", "--wait", "3", "x").want(64, "exclude each other")
	r.signal(syscall.SIGTERM)
	r.told("lost")
	r.signal(syscall.SIGINT)
	r.want(128 + int(syscall.SIGINT))
	h.start("fenlock", "run", "--no-wait", "x", "--", "true").want(75)
}

// A program that reads no more has a lock that is extended, and released in time.
func TestHoldWithoutAReader(t *testing.T) {
	h := newHome(t)
	for _, close := range []bool{true, false} {
		r := h.start("sh", "-c", `fenlock hold --ttl 1s --slots 2 x | { read -r line; echo "$line"; `+
			map[bool]string{true: "exec <&-; ", false: ""}[close]+`cat >/dev/null; }`)
		if line := r.told("held"); line.Slot == nil {
			t.Errorf("%+v has no slot", line)
		}
		r.stdin.Close()
		r.rest()
	}
	h.start("fenlock", "run", "--no-wait", "--slots", "2", "x", "--", "fenlock", "run", "--no-wait", "--slots", "2", "x",
		"--", "true").want(0)
}

// clientsHome has the clients of other languages where their programs find them.
func clientsHome(t *testing.T) *home {
	clients, err := filepath.Abs("../../../../clients")
	must(t, err)
	return newHome(t, "PYTHONPATH="+filepath.Join(clients, "python"), "PYTHONDONTWRITEBYTECODE=1")
}

// A client whose command is stopped, and so tells it nothing, has the deadline.
func TestHoldClientsKnowTheDeadline(t *testing.T) {
	h := clientsHome(t)
	for _, program := range [][]string{{"python3", "-c", `
import fenlock, os, signal, time
lock = fenlock.hold("x", "--ttl=300ms")
os.kill(lock._process.pid, signal.SIGSTOP)
print(lock.remaining() > 0, lock.wait_lost(10), lock.remaining())
try: lock.check()
except fenlock.Lost as lost: print(lost)
os.kill(lock._process.pid, signal.SIGCONT)
`}, {"node", "--input-type=module", "-e", `
import { readFileSync } from 'node:fs'
const { hold } = await import(process.env.PYTHONPATH + '/../node/fenlock.mjs')
const lock = await hold('x', ['--ttl=300ms'])
const child = Number(readFileSync('/proc/self/task/' + process.pid + '/children', 'ascii'))
process.kill(child, 'SIGSTOP')
const before = lock.remaining() > 0
await new Promise(resolve => {
  const timer = setTimeout(resolve, 10000)
  lock.signal.onabort = () => { clearTimeout(timer); resolve() }
})
console.log(before ? 'True' : 'False', lock.signal.aborted ? 'True' : 'False', lock.remaining().toFixed(1))
try { lock.check() } catch (lost) { console.log(lost.message) }
process.kill(child, 'SIGCONT')
await lock.release().catch(() => {})
`}} {
		r := h.start(program...)
		if got := r.rest(); got != "True True 0.0\nthe lock on 'x' is lost: its time is up\n" {
			t.Errorf("%s: %q", program[0], got)
		}
		r.want(0)
	}
}

// A forked process does not hold the lock, and does not keep it. Whether it was released is what
// the command says, and not its exit status, which a program may throw away.
func TestHoldForkedPython(t *testing.T) {
	h := clientsHome(t)
	r := h.start("python3", "-c", `
import fenlock, os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
lock = fenlock.hold("x", "--local")
read, write = os.pipe()
if os.fork() == 0:
    for act in (lock.check, lock.release):
        try: act(); print("it holds", flush=True)
        except fenlock.Lost as lost: print(lost, flush=True)
    os.read(read, 1)
    os._exit(0)
lock.check()
lock.release()
with fenlock.hold("x", "--local", "--no-wait") as lock: print("again", flush=True)
os.write(write, b"x")
`)
	got := strings.Split(strings.TrimSpace(r.rest()), "\n")
	slices.Sort(got)
	if want := []string{"again", "the lock on 'x' is lost: this process was forked from the one that holds it",
		"the lock on 'x' was lost before its release"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	r.want(0)
}

// Clients in other languages never believe in a lock that a later client has, whatever is killed or
// stopped. These may be the clients, or the commands that hold for them. HOLD_KILLS says how many
// are (default 60).
func TestHoldClients(t *testing.T) {
	kills := 60
	if text := os.Getenv("HOLD_KILLS"); text != "" {
		kills, _ = strconv.Atoi(text)
	}
	h := clientsHome(t)
	programs := [][]string{{"python3", "testdata/hold/believer.py"}, {"node", "testdata/hold/believer.mjs"}}
	var (
		mu          sync.Mutex
		first, last = make(map[uint64]int), make(map[uint64]int)
		by          = make(map[int]int)
		holder      int
		running     sync.WaitGroup
	)
	begin := func(i int) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), programs[i%2][0], programs[i%2][1:]...)
		cmd.Env = h.env
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		running.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var token uint64
				var at int
				if _, err := fmt.Sscan(lines.Text(), &token, &at); err != nil {
					continue // cut off: it was killed
				}
				mu.Lock()
				if _, known := first[token]; !known {
					first[token] = at
					by[i%2]++
					holder = i
				}
				last[token] = max(last[token], at)
				mu.Unlock()
			}
		})
		return cmd
	}
	var all []*exec.Cmd
	for i := range 4 {
		all = append(all, begin(i))
	}
	for range kills {
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		i := rand.IntN(len(all))
		if rand.IntN(2) == 0 {
			mu.Lock()
			i = holder
			mu.Unlock()
		}
		victim := all[i].Process.Pid
		if children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", victim, victim)); rand.IntN(2) == 0 &&
			len(children) > 0 {
			victim, _ = strconv.Atoi(strings.Fields(string(children))[0])
		}
		sig := []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL, syscall.SIGTERM}[rand.IntN(3)]
		syscall.Kill(victim, sig)
		if sig == syscall.SIGSTOP {
			running.Go(func() {
				time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond)
				syscall.Kill(victim, syscall.SIGCONT)
			})
		} else if victim == all[i].Process.Pid {
			syscall.Kill(victim, syscall.SIGCONT) // it may have been stopped
			all[i].Wait()
			all[i] = begin(i)
		}
	}
	for _, cmd := range all {
		cmd.Process.Kill()
		cmd.Wait()
	}
	running.Wait()
	if by[0] == 0 || by[1] == 0 {
		t.Errorf("locks of Python and Node.js: %v", by)
	}
	for a, until := range last {
		for b, from := range first {
			if a < b && until > from {
				t.Errorf("the client with token %d believed in it at %d, one with %d since %d (hundredths of a second)", a, until,
					b, from)
			}
		}
	}
	t.Logf("%d locks of Python, %d of Node.js", by[0], by[1])
}
