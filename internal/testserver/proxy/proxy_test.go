package proxy

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

	"github.com/fenlock/fenlock/internal/testserver/probe"
)

// newEcho starts a server that sends every line back, and a proxy before it.
// said gets what the server hears; it is closed when the test ends.
func newEcho(t *testing.T) (p *Proxy, said chan string) {
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
	p = New(listener.Addr().String(), rand.New(rand.NewPCG(1, 2)))
	t.Cleanup(func() {
		listener.Close()
		p.Close()
	})
	return p, said
}

// A megabyte through a slow network with jitter arrives as it was sent, and so
// does the end.
func TestProxyOrder(t *testing.T) {
	p, _ := newEcho(t)
	w := probe.Dial(t, p.Addr(0))
	lift := p.Impose(Rule{To: Effect{Delay: 5 * time.Millisecond}, From: Effect{Delay: 20 * time.Millisecond}})
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
	w.SetReadDeadline(time.Now().Add(3 * time.Minute))
	got, err := io.ReadAll(w)
	if err != nil || !bytes.Equal(got, sent.Bytes()) {
		t.Errorf("%d bytes of %d arrived, %v", len(got), sent.Len(), err)
	}
}

// One packet in two is late: of 40 neither none nor all, but for a chance of 2 in 10^12.
func TestProxyOneIn(t *testing.T) {
	p, _ := newEcho(t)
	w := probe.Dial(t, p.Addr(0))
	defer p.Impose(Rule{From: Effect{OneIn: 2, Late: 50 * time.Millisecond}})()
	late := 0
	for range 40 {
		begin := time.Now()
		w.Answers("one", "one")
		if time.Since(begin) >= 50*time.Millisecond {
			late++
		}
	}
	if late == 0 || late == 40 {
		t.Errorf("%d of 40 were late", late)
	}
}

// What was held back arrives even if the sender has gone meanwhile, its end last.
func TestProxyLateRequests(t *testing.T) {
	p, said := newEcho(t)
	w := probe.Dial(t, p.Addr(0))
	lift := p.Impose(Rule{To: Effect{Hold: true}})
	w.Silent("one")
	w.Silent("two")
	w.Close()
	mute := probe.Dial(t, p.Addr(0)) // of which only the end is held back
	mute.Close()
	select {
	case line := <-said:
		t.Fatalf("the server heard %q before its time", line)
	case <-time.After(probe.Silence):
	}
	lift()
	lift() // does nothing
	var all []string
	for range 4 {
		select {
		case line := <-said:
			all = append(all, strings.TrimSpace(line))
		case <-time.After(probe.Patience):
		}
	}
	switch heard := strings.Join(all, " "); heard {
	case "one two end end", "one end two end", "end one two end":
	default:
		t.Errorf("the server heard %s, want one, two and the end, and another end", heard)
	}
}

// Delays are summed, and the end of one rule does not end the others.
func TestProxyRulesAddUp(t *testing.T) {
	p, _ := newEcho(t)
	w := probe.Dial(t, p.Addr(0))
	first := p.Impose(Rule{To: Effect{Delay: 60 * time.Millisecond}, From: Effect{Delay: 40 * time.Millisecond}})
	second := p.Impose(Rule{To: Effect{Delay: 20 * time.Millisecond}})
	begin := time.Now()
	w.Answers("slow", "slow")
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("took %v, want at least half of all delays", took)
	}
	first()
	second()
	first, second = p.Impose(Rule{To: Effect{Hold: true}}), p.Impose(Rule{To: Effect{Hold: true}})
	w.Silent("held twice")
	first()
	if reply, err := w.Receive(probe.Silence); err == nil {
		t.Errorf("heard %q although it is held by another rule", reply)
	}
	second()
	w.Receives("held twice")
}
