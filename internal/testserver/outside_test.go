//go:build unix

package testserver_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

func TestOutside(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		outside := &testserver.Outside{}
		defer outside.Close()
		var s *testserver.Server
		if err := testserver.Try(func() error {
			s = testserver.Start(outside, kind)
			want(t, s.Do("PING"), "PONG")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		pid, folder := s.Pid(), strings.Trim(strings.TrimPrefix(s.Do("CONFIG", "GET", "dir"), "[dir "), "]")
		err := testserver.Try(func() error { s.Restart(); return nil })
		if err == nil || !strings.Contains(err.Error(), "still running") {
			t.Fatalf("restart of a running server: %v", err)
		}
		outside.Close()
		outside.Close()
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d is still there: %v", pid, err)
		}
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", folder, err)
		}
	})
}

func TestTryPassesOn(t *testing.T) {
	mine := errors.New("mine")
	if err := testserver.Try(func() error { return mine }); err != mine {
		t.Errorf("got %v, want the function's own error", err)
	}
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("got the panic %v, want the function's own", p)
		}
	}()
	testserver.Try(func() error { panic("a bug") })
}

func TestAsk(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind, "user admin on >secret ~* &* +@all")
		if reply, err := s.Ask("admin", "secret", 10*time.Second, "ACL", "WHOAMI"); reply != "admin" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		reply, err := s.Ask("admin", "wrong", 10*time.Second, "PING")
		if err != nil || !strings.HasPrefix(reply, "WRONGPASS ") {
			t.Errorf("with a wrong password: %q, %v", reply, err)
		}
		s.Pause()
		if reply, err := s.Ask("", "", 50*time.Millisecond, "PING"); err == nil {
			t.Errorf("a paused server answered %q", reply)
		}
		s.Kill()
		if reply, err := s.Ask("", "", 10*time.Second, "PING"); err == nil {
			t.Errorf("a dead server answered %q", reply)
		}
	})
}
