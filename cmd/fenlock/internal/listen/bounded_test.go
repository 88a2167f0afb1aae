package listen

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener with connections that are there already.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) { return <-p, nil }
func (pipes) Close() error                { return nil }
func (pipes) Addr() net.Addr              { return nil }

// There are so many connections at most, and one for each that ends after that. Time passes from
// one to the next, also if it is one too many.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(pipes, 4)
		var far []net.Conn
		for range 4 {
			here, there := net.Pipe()
			defer there.Close()
			all <- here
			far = append(far, there)
		}
		began := time.Now()
		l := Bounded(all, 2, time.Second)
		first, _ := l.Accept()
		second, _ := l.Accept()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("two took %v", took)
		}
		accepted := make(chan net.Conn)
		go func() {
			c, _ := l.Accept()
			accepted <- c
		}()
		if _, err := far[2].Read(make([]byte, 1)); err == nil { // it is closed, and not waited for
			t.Error("one too many is taken")
		}
		first.Close()
		first.Close() // counts once
		third := <-accepted
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("four took %v", took)
		}
		here, there := net.Pipe()
		defer there.Close()
		all <- here
		go l.Accept()
		if _, err := there.Read(make([]byte, 1)); err == nil {
			t.Error("who ends twice makes room for two")
		}
		second.Close()
		third.Close()
		here, there = net.Pipe()
		defer there.Close()
		all <- here // for the one that still accepts
		synctest.Wait()
		time.Sleep(2 * time.Second)
	})
}
