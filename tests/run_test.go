package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
)

// Eight processes at a time increment a file under "fenlock run", while pairs of
// the five servers are killed, emptied and started again. No increment is lost, and
// the tokens that the commands wrote down are in the order of the writes.
func TestRunLosesNoIncrement(t *testing.T) {
	servers := groupFor(t, testserver.Kinds(t)[0], 5, runTTL)
	done, check := increment(t, urls(servers), 8, 10)
	faults := 0
	for running := true; running; faults++ {
		pair := []*testserver.Server{servers[faults%5], servers[(faults+2)%5]}
		for _, s := range pair {
			s.Kill()
		}
		for _, s := range pair {
			s.Restart()
		}
		// The next pair is not lost before these two are back: three must be there.
		eventually(t, func() error {
			select {
			case <-done: // they are not asked any more
				running = false
				return nil
			default:
			}
			return admitted(pair...)
		})
	}
	check()
	t.Logf("%d pairs of servers lost", faults)
}

// The same while the connections to one of three servers are slow and break.
func TestRunLosesNoIncrementBehindABadNetwork(t *testing.T) {
	servers := groupFor(t, testserver.Kinds(t)[0], 3, runTTL)
	bad, through := through(t, servers[0])
	done, check := increment(t, append(through, urls(servers[1:])...), 8, 8)
	cuts := 0
	for running := true; running; cuts++ {
		lift := bad.impose(proxy.Rule{From: proxy.Effect{Delay: time.Duration(cuts%4) * 10 * time.Millisecond}})
		bad.impose(proxy.Rule{Cut: true})()
		select {
		case <-done:
			running = false
		case <-time.After(40 * time.Millisecond):
		}
		lift()
	}
	check()
	t.Logf("connections cut %d times", cuts)
}

// runTTL is long enough for a machine on which eight processes, their watchdogs and commands wait
// for their turn.
const runTTL = 5 * time.Second

// increment starts processes that increment a file under the lock, each in so many
// rounds. Done is closed when they have ended; check then fails the test if an
// increment was lost or tokens do not grow.
func increment(t *testing.T, urls []string, processes, rounds int) (done <-chan struct{}, check func()) {
	t.Helper()
	folder := t.TempDir()
	fenlock := testserver.Fenlock(t)
	counter, log := filepath.Join(folder, "counter"), filepath.Join(folder, "log")
	if err := os.WriteFile(counter, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"run", "--ttl", runTTL.String(), "--max-ttl", runTTL.String(), "--wait", "5m"}
	for _, url := range urls {
		arguments = append(arguments, "--node", url)
	}
	arguments = append(arguments, "counter", "--", "sh", "-c",
		`read n <"$0"; sleep 0.02; echo $((n + 1)) >"$0"; echo "$FENLOCK_TOKEN" >>"$1"`, counter, log)
	var wait sync.WaitGroup
	for p := range processes {
		wait.Go(func() {
			for r := range rounds {
				cmd := exec.Command(fenlock, arguments...)
				if output, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("process %d, round %d: %v\n%s", p, r, err, output)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	return ended, func() {
		t.Helper()
		<-ended
		want := processes * rounds
		text, err := os.ReadFile(counter)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.TrimSpace(text)); got != strconv.Itoa(want) {
			t.Errorf("counter %s after %d increments", got, want)
		}
		text, err = os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		tokens := strings.Fields(string(text))
		last := 0
		for i, field := range tokens {
			token, err := strconv.Atoi(field)
			if err != nil || token <= last {
				t.Errorf("token %d of the log is %q, after %d", i, field, last)
			}
			last = token
		}
		if len(tokens) != want {
			t.Errorf("%d tokens in the log, want %d", len(tokens), want)
		}
	}
}
