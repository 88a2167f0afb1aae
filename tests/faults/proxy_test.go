//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// newEcho starts a server that sends every line back, and a proxy before it.
// said gets what the server hears; it is closed when the test ends.
func newEcho(t *testing.T) (p *proxy, said chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said = make(chan string, 1000)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						said <- "end"
						return
					}
					said <- line
					if _, err := io.WriteString(conn, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	p = newProxy(listener.Addr().String(), rand.New(rand.NewPCG(1, 2)))
	t.Cleanup(func() {
		listener.Close()
		p.close()
	})
	return p, said
}

func heard(t *testing.T, said chan string, want string) {
	t.Helper()
	select {
	case got := <-said:
		if got != want {
			t.Errorf("the server heard %q, want %q", got, want)
		}
	case <-time.After(patientTimeout):
		t.Errorf("the server did not hear %q", want)
	}
}

// A megabyte through a slow network with jitter arrives as it was sent, and so
// does the end.
func TestProxyOrder(t *testing.T) {
	p, _ := newEcho(t)
	w := dialWire(t, p.addr(0))
	lift := p.impose(rule{ways: [2]way{{delay: 5 * time.Millisecond}, {delay: 20 * time.Millisecond}}})
	defer lift()
	var sent bytes.Buffer
	for i := range 500 {
		fmt.Fprintf(&sent, "%06d\n", i)
	}
	go func() {
		for line := range bytes.Lines(sent.Bytes()) {
			w.Write(line)
			if len(line)%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		w.Conn.(*net.TCPConn).CloseWrite()
	}()
	w.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := io.ReadAll(w)
	if err != nil || !bytes.Equal(got, sent.Bytes()) {
		t.Errorf("%d bytes of %d arrived, %v", len(got), sent.Len(), err)
	}
}

func TestProxyDelay(t *testing.T) {
	p, _ := newEcho(t)
	w := dialWire(t, p.addr(0))
	lift := p.impose(rule{ways: [2]way{{delay: 60 * time.Millisecond}, {delay: 40 * time.Millisecond}}})
	again := p.impose(rule{ways: [2]way{to: {delay: 20 * time.Millisecond}}})
	begin := time.Now()
	w.answers(t, "slow", "slow")
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("took %v, want at least half of all delays", took)
	}
	lift()
	again()
	w.answers(t, "fast", "fast")
}

// What was held back arrives even if the sender has gone meanwhile, its end last.
func TestProxyLateRequests(t *testing.T) {
	p, said := newEcho(t)
	w := dialWire(t, p.addr(0))
	lift := p.impose(rule{ways: [2]way{to: holding}})
	w.silent(t, "one")
	w.silent(t, "two")
	w.Close()
	mute := dialWire(t, p.addr(0)) // of which only the end is held back
	mute.Close()
	select {
	case line := <-said:
		t.Fatalf("the server heard %q before its time", line)
	case <-time.After(soon):
	}
	lift()
	lift() // does nothing
	var all []string
	for range 4 {
		select {
		case line := <-said:
			all = append(all, strings.TrimSpace(line))
		case <-time.After(patientTimeout):
		}
	}
	switch heard := strings.Join(all, " "); heard {
	case "one two end end", "one end two end", "end one two end":
	default:
		t.Errorf("the server heard %s, want one, two and the end, and another end", heard)
	}
}

// A connection that lost something never goes on; one that lost nothing does.
func TestProxyLoss(t *testing.T) {
	for which, name := range []string{"to", "from"} {
		t.Run(name, func(t *testing.T) {
			p, said := newEcho(t)
			talker, listener, late, gone := dialWire(t, p.addr(0)), dialWire(t, p.addr(0)), dialWire(t, p.addr(0)), dialWire(t, p.addr(0))
			for _, w := range []*wire{talker, listener, late, gone} {
				w.answers(t, "hello", "hello")
				heard(t, said, "hello\r\n")
			}
			var r rule
			r.ways[which].lose = true
			lift := p.impose(r)
			talker.silent(t, "lost")
			gone.Close()
			if which == from {
				heard(t, said, "lost\r\n")
				heard(t, said, "end")
				// More of it is executed, although a reply was lost.
				talker.silent(t, "more")
				heard(t, said, "more\r\n")
			}
			dialWire(t, p.addr(0)).silent(t, "new")
			if which == from {
				heard(t, said, "new\r\n")
			}
			select {
			case line := <-said:
				t.Errorf("the server heard %q", line)
			case <-time.After(soon):
			}
			lift()
			talker.dead(t)
			listener.answers(t, "still there", "still there")
			dialWire(t, p.addr(0)).answers(t, "and new ones", "and new ones")
		})
	}
}

func TestProxyCutAndRetarget(t *testing.T) {
	p, _ := newEcho(t)
	q, said := newEcho(t)
	mine, other := dialWire(t, p.addr(0)), dialWire(t, p.addr(1))
	mine.answers(t, "1", "1")
	other.answers(t, "2", "2")
	lift := p.impose(rule{cut: true, only: func(client int) bool { return client == 0 }})
	mine.dead(t)
	refused(t, p.addr(0))
	other.answers(t, "3", "3")
	lift()
	mine = dialWire(t, p.addr(0))
	mine.answers(t, "4", "4")
	p.retarget(q.target)
	mine.dead(t)
	other.dead(t)
	dialWire(t, p.addr(0)).answers(t, "5", "5")
	heard(t, said, "5\r\n")
}

// A rule for one way that ends leaves the other rules' losses to them.
func TestProxyRulesAddUp(t *testing.T) {
	p, _ := newEcho(t)
	first := p.impose(rule{ways: [2]way{to: holding}})
	second := p.impose(rule{ways: [2]way{to: holding}})
	w := dialWire(t, p.addr(0))
	w.silent(t, "held twice")
	first()
	if reply, err := w.hear(soon); err == nil {
		t.Errorf("heard %q although it is held by another rule", reply)
	}
	second()
	if reply, err := w.hear(patientTimeout); reply != "held twice" {
		t.Errorf("%q, %v", reply, err)
	}
}
