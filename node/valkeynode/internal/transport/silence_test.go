package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

// talk has a server and a client at the ends of a pipe, on a fake clock. The client's Read runs all
// the time; what it ends with, and when, is returned once the server's part is over, or after a
// day.
func talk(t *testing.T, server func(conn net.Conn, ask func())) (after time.Duration, ended error) {
	synctest.Test(t, func(t *testing.T) {
		there, here := net.Pipe()
		f := newFramed(here, resp.Plain)
		start := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, ended = io.Copy(io.Discard, f)
			after = time.Since(start)
			there.Close()
		}()
		go io.Copy(io.Discard, there) // what is asked
		server(there, func() {
			if _, err := f.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil && ended == nil {
				t.Error(err)
			}
		})
		select {
		case <-done:
		case <-time.After(24 * time.Hour):
			here.Close()
			<-done
		}
	})
	return after, ended
}

const answer = "+PONG\r\n"

func TestSilence(t *testing.T) {
	second := func(n float64) { time.Sleep(time.Duration(n * float64(time.Second))) }
	say := func(conn net.Conn, what string) { conn.Write([]byte(what)) }
	for name, c := range map[string]struct {
		server func(conn net.Conn, ask func())
		ends   time.Duration // 0: it does not
	}{
		"nothing is asked": {func(net.Conn, func()) {}, 0},
		"all is answered": {func(conn net.Conn, ask func()) {
			for range 3 {
				ask()
				say(conn, answer)
			}
		}, 0},
		"no answer": {func(_ net.Conn, ask func()) {
			second(1)
			ask()
		}, 4100 * time.Millisecond},
		"no answer, and more is asked": {func(_ net.Conn, ask func()) {
			for range 3 {
				ask()
				second(1.2)
			}
		}, 3100 * time.Millisecond},
		"one answer is late, then all": {func(conn net.Conn, ask func()) {
			ask()
			ask()
			ask()
			for range 3 {
				second(2.9)
				say(conn, answer)
			}
		}, 0},
		"one of two is answered": {func(conn net.Conn, ask func()) {
			ask()
			ask()
			second(2)
			say(conn, answer)
		}, 5100 * time.Millisecond},
		"asked again after hours": {func(conn net.Conn, ask func()) {
			ask()
			say(conn, answer)
			second(7200)
			ask()
		}, 2*time.Hour + 3100*time.Millisecond},
		"messages answer nothing": {func(conn net.Conn, ask func()) {
			ask()
			for range 9 {
				second(0.5)
				say(conn, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n")
			}
		}, 3100 * time.Millisecond},
		"an answer that never ends": {func(conn net.Conn, ask func()) {
			ask()
			second(2.95)
			for range 20 {
				say(conn, "+")
				second(0.05)
			}
		}, 3100 * time.Millisecond},
		"within the moment more": {func(conn net.Conn, ask func()) {
			ask()
			second(3.05)
			say(conn, answer)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			after, ended := talk(t, c.server)
			if c.ends == 0 && after < 24*time.Hour ||
				c.ends > 0 && (after != c.ends || !errors.Is(ended, os.ErrDeadlineExceeded)) {
				t.Errorf("ended after %v: %v; want %v", after, ended, c.ends)
			}
		})
	}
}

// While the library has a deadline of its own, as it has when a connection is made, that counts.
func TestDeadlineOfTheLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there, here := net.Pipe()
		defer there.Close()
		go io.Copy(io.Discard, there)
		f := newFramed(here, resp.Plain)
		defer f.Close()
		start := time.Now()
		f.SetDeadline(start.Add(10 * time.Second))
		f.Write([]byte("*1\r\n$4\r\nPING\r\n"))
		if _, err := f.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v; want the end of its own deadline", err, time.Since(start))
		}
		f.SetDeadline(time.Time{})
		f.Write([]byte("*1\r\n$4\r\nPING\r\n"))
		if _, err := f.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(start) != 13100*time.Millisecond {
			t.Errorf("%v after %v; want the end by silence", err, time.Since(start))
		}
	})
}
