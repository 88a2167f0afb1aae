//go:build unix

package testserver_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

func want(t *testing.T, got, expected string) {
	t.Helper()
	if got != expected {
		t.Fatalf("got %q, want %q", got, expected)
	}
}

func TestReplies(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		want(t, s.URL(), string(kind)+"://"+s.Addr())
		want(t, s.Do("SET", "a b", "1\r\n2"), "OK")
		want(t, s.Do("GET", "a b"), "1\r\n2")
		want(t, s.Do("GET", "none"), "(nil)")
		want(t, s.Do("INCR", "n"), "1")
		want(t, s.Do("EVAL", "return {1, {'x', 'y'}, false}", "0"), "[1 [x y] (nil)]")
		if reply := s.Do("EVALSHA", strings.Repeat("0", 40), "0"); !strings.HasPrefix(reply, "NOSCRIPT ") {
			t.Fatalf("EVALSHA: %q", reply)
		}
		want(t, s.Info("server", "process_id"), strconv.Itoa(s.Pid()))
		want(t, s.Info("server", "no such"), "")
		s.Stop() // in memory only, by default
		s.Restart()
		want(t, s.Do("GET", "a b"), "(nil)")
	})
}

func TestKillRestartWipe(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind, "appendonly yes", "appendfsync always")
		addr, pid := s.Addr(), s.Pid()
		s.Do("SET", "key", "value")
		s.Kill()
		s.Kill() // a dead server stays dead
		if s.Pid() != 0 {
			t.Fatal("has a process after Kill")
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Fatal("accepts connections after Kill")
		}
		s.Restart()
		want(t, s.Addr(), addr)
		want(t, s.Do("GET", "key"), "value")
		if s.Pid() == pid || s.Pid() == 0 {
			t.Fatalf("process %d after process %d", s.Pid(), pid)
		}

		s.Stop()
		s.Wipe()
		s.Restart()
		want(t, s.Do("GET", "key"), "(nil)")

		s.Do("SET", "key", "value")
		s.Kill()
		s.Restart("appendonly no")
		want(t, s.Do("GET", "key"), "(nil)")
		s.Stop()
		s.Restart()
		want(t, s.Do("CONFIG", "GET", "appendonly"), "[appendonly no]")
		if n := strings.Count(s.Log(), "Ready to accept connections"); n != 5 {
			t.Fatalf("the log tells of %d starts, want 5:\n%s", n, s.Log())
		}
	})
}

func TestPauseResume(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		s.Pause()
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatalf("the kernel accepts for a paused server: %v", err)
		}
		defer conn.Close()
		conn.Write([]byte("PING\r\n"))
		conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		replies := bufio.NewReader(conn)
		if line, err := replies.ReadString('\n'); err == nil {
			t.Fatalf("a paused server answered %q", line)
		}
		s.Resume()
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if line, err := replies.ReadString('\n'); line != "+PONG\r\n" {
			t.Fatalf("after Resume: %q, %v", line, err)
		}

		s.Pause()
		s.Stop()
		s.Restart()
		s.Pause()
		s.Kill()
		s.Restart()
		s.Pause() // for Cleanup, see TestCleanup
	})
}

// The test's end leaves no process, whatever the server's state.
func TestCleanup(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		var pids []int
		t.Run("inner", func(t *testing.T) {
			servers := testserver.Group(t, kind, 3)
			for _, s := range servers {
				pids = append(pids, s.Pid())
			}
			servers[0].Pause()
			servers[1].Kill()
		})
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("process %d is still there: %v", pid, err)
			}
		}
	})
}

// A test binary that is killed takes its servers with it. The test runs itself
// as the victim: a child that starts a server, pauses it and says its id.
func TestKilledTestBinary(t *testing.T) {
	const variable = "FENLOCK_TEST_VICTIM"
	if os.Getenv(variable) != "" {
		s := testserver.Start(t, testserver.Kinds(t)[0])
		s.Pause()
		os.Stdout.WriteString("pid " + strconv.Itoa(s.Pid()) + "\n")
		time.Sleep(time.Minute)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledTestBinary$")
	// Its temporary folder goes with it into ours: a killed test deletes nothing.
	cmd.Env = append(os.Environ(), variable+"=1", "TMPDIR="+t.TempDir())
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(output).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "pid ")))
	if err != nil {
		t.Fatalf("the child said %q", line)
	}
	for range 500 {
		if gone(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("server %d outlives its test", pid)
}

// gone counts a zombie as gone: in a container no process may reap an orphan.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// PostgreSQL has a process for each connection, and all of them stop.
func TestPausedPostgres(t *testing.T) {
	s := testserver.StartPostgres(t)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(kind string, body string) {
		t.Helper()
		message := append([]byte(kind), 0, 0, 0, byte(4+len(body)))
		if _, err := conn.Write(append(message, body...)); err != nil {
			t.Fatal(err)
		}
	}
	// ready reads up to the message that says that the server waits for a query.
	ready := func(within time.Duration) error {
		conn.SetReadDeadline(time.Now().Add(within))
		var head [5]byte
		for head[0] != 'Z' {
			if _, err := io.ReadFull(conn, head[:]); err != nil {
				return err
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[1:])-4)); err != nil {
				return err
			}
		}
		return nil
	}
	const patience = 10 * time.Second
	send("", "\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00")
	if err := ready(patience); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	send("Q", "SELECT 1\x00")
	if err := ready(200 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a server that stands still: %v", err)
	}
	s.Resume()
	if err := ready(patience); err != nil {
		t.Error(err)
	}
	s.Pause()
	s.Kill()
	s.Start()
	s.Pause() // for Cleanup
}
