package tests

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// Three at night: a job hangs under its lock, one server of five is stopped, and the operator has a
// wrong password for another. Command after command says what the lock waits for and what to mend,
// and the lock is broken all the same. Its next holder has a larger token. The job that hung is
// ended by its own fenlock, which says why.
func TestStuckHolderInAnOutage(t *testing.T) {
	fenlock := testserver.Fenlock(t)
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := testserver.Group(t, kind, 5)
		for _, s := range servers {
			s.MarkAdmitted(valkeynode.DefaultPrefix, 30*time.Second)
		}
		right := urls(servers)
		wrong := append([]string(nil), right...)
		wrong[3] = strings.Replace(right[3], "://", "://:wrong-one@", 1)
		hung, refusing := servers[1], servers[3]
		refusing.Do("CONFIG", "SET", "requirepass", "right-one")
		right[3] = strings.Replace(right[3], "://", "://:right-one@", 1)

		command := func(nodes []string, args ...string) *exec.Cmd {
			cmd := exec.Command(fenlock, args...)
			cmd.Env = append(os.Environ(), "FENLOCK_NODES="+strings.Join(nodes, ","))
			return cmd
		}
		holder := command(right, "run", "--label", "host-a nightly", "orders", "--", "sh", "-c",
			"echo $FENLOCK_TOKEN; exec sleep 100")
		stdout, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		holder.Stderr = &told
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = holder.Process.Signal(syscall.SIGTERM) }) // it may be gone
		line, err := bufio.NewReader(stdout).ReadString('\n')
		first, invalid := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || invalid != nil {
			t.Fatalf("%q, %v: %s", line, err, &told)
		}
		eventually(t, func() error { // a busy one may grant it later than the others
			if n := leases([]*testserver.Server{servers[0], servers[2], servers[4]}, "orders"); n < 3 {
				return fmt.Errorf("%d of the 3 servers that stay have the lease", n)
			}
			return nil
		})
		hung.Pause()

		says := func(status int, args []string, texts ...string) {
			t.Helper()
			cmd := command(wrong, args...)
			output, _ := cmd.CombinedOutput() // its error is the status
			if got := cmd.ProcessState.ExitCode(); got != status {
				t.Errorf("%v: status %d, want %d", args, got, status)
			}
			for _, text := range texts {
				if !strings.Contains(string(output), text) {
					t.Errorf("%v does not say %q:\n%s", args, text, output)
				}
			}
			if strings.Contains(string(output), "wrong-one") {
				t.Errorf("%v shows a password:\n%s", args, output)
			}
		}
		unread := []string{hung.Addr() + "  no answer", refusing.Addr()}
		says(0, []string{"inspect", "orders"},
			append(unread, "orders is held by host-a nightly", "votes  3/5", "password")...)
		says(0, []string{"ls"}, "host-a nightly", "orders")
		says(0, []string{"nodes"}, hung.Addr()+" is down", refusing.Addr()+" is misconfigured", "password",
			"3 of 5 vote, 3 needed")
		says(2, []string{"doctor", "--for", "0s"}, "[hangs]", "kill -CONT", "[password]", "Correct the user and the password")
		says(75, []string{"run", "-n", "orders", "--", "echo", "mine"}, "host-a nightly")
		says(0, []string{"release", "--force", "--yes", "orders"}, "broken: orders, held by host-a nightly (")

		// The job that hung is ended, and no client has to wait for its lease.
		var mine strings.Builder
		next := command(wrong, "run", "orders", "--", "sh", "-c", "echo token=$FENLOCK_TOKEN")
		next.Stdout, next.Stderr = &mine, io.Discard
		if err := next.Run(); err != nil {
			t.Error(err)
		}
		match := regexp.MustCompile(`^token=(\d+)\n$`).FindStringSubmatch(mine.String())
		if match == nil {
			t.Fatalf("the next holder said %q", &mine)
		}
		if second, err := strconv.ParseInt(match[1], 10, 64); err != nil || second <= first {
			t.Errorf("the next token is %s, after %d", match[1], first)
		}
		ended := make(chan error, 1)
		go func() { ended <- holder.Wait() }()
		select {
		case <-ended:
		case <-time.After(3 * time.Minute):
			t.Fatal("the old holder goes on")
		}
		if status := holder.ProcessState.ExitCode(); status != 76 || !strings.Contains(told.String(), "lost") {
			t.Errorf("the old holder ended with %d and %q", status, &told)
		}
	})
}
