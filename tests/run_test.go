package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// Eight processes at a time increment a file under "fenlock run", while pairs of
// the five servers are killed, emptied and started again. No increment is lost, and
// the tokens that the commands wrote down are in the order of the writes.
func TestRunLosesNoIncrement(t *testing.T) {
	const processes, rounds = 8, 10
	folder := t.TempDir()
	fenlock := filepath.Join(folder, "fenlock")
	build := exec.Command("go", "build", "-o", fenlock, ".")
	build.Dir = filepath.Join("..", "cmd", "fenlock")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	servers := group(t, testserver.Kinds(t)[0], 5)
	counter, log := filepath.Join(folder, "counter"), filepath.Join(folder, "log")
	if err := os.WriteFile(counter, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"run", "--ttl", "1s", "--max-ttl", "1s", "--wait", "60s"}
	for _, s := range servers {
		arguments = append(arguments, "--node", s.URL())
	}
	arguments = append(arguments, "counter", "--", "sh", "-c",
		`read n <"$0"; sleep 0.02; echo $((n + 1)) >"$0"; echo "$FENLOCK_TOKEN" >>"$1"`, counter, log)

	var wait sync.WaitGroup
	done := make(chan struct{})
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
	go func() { wait.Wait(); close(done) }()
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
			case <-done: // nobody asks them any more
				running = false
				return nil
			default:
			}
			for _, s := range pair {
				if id := s.Do("HGET", "fenlock-registers:fenlock:", "admitted"); len(id) != 40 {
					return fmt.Errorf("%s is not admitted", s.Addr())
				}
			}
			return nil
		})
	}
	<-done

	text, err := os.ReadFile(counter)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(bytes.TrimSpace(text)); got != strconv.Itoa(processes*rounds) {
		t.Errorf("counter %s after %d increments", got, processes*rounds)
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
	if len(tokens) != processes*rounds {
		t.Errorf("%d tokens in the log, want %d", len(tokens), processes*rounds)
	}
	t.Logf("%d increments, %d pairs of servers lost", len(tokens), faults)
}
