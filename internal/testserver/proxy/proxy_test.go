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

func heard(t *testing.T, said chan string, want string) {
	t.Helper()
	select {
	case got := <-said:
		if got != want {
			t.Errorf("the server heard %q, want %q", got, want)
		}
	case <-time.After(probe.Patience):
		t.Errorf("the server did not hear %q", want)
	}
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
	w.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := io.ReadAll(w)
	if err != nil || !bytes.Equal(got, sent.Bytes()) {
		t.Errorf("%d bytes of %d arrived, %v", len(got), sent.Len(), err)
	}
}

func TestProxyDelay(t *testing.T) {
	p, _ := newEcho(t)
	w := probe.Dial(t, p.Addr(0))
	lift := p.Impose(Rule{To: Effect{Delay: 60 * time.Millisecond}, From: Effect{Delay: 40 * time.Millisecond}})
	again := p.Impose(Rule{To: Effect{Delay: 20 * time.Millisecond}})
	begin := time.Now()
	w.Answers("slow", "slow")
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("took %v, want at least half of all delays", took)
	}
	lift()
	again()
	w.Answers("fast", "fast")
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

// A connection that lost something never goes on; one that lost nothing does.
func TestProxyLoss(t *testing.T) {
	for lost, rule := range map[direction]Rule{to: {To: Effect{Lose: true}}, from: {From: Effect{Lose: true}}} {
		t.Run([]string{to: "to", from: "from"}[lost], func(t *testing.T) {
			p, said := newEcho(t)
			talker, listener, late, gone := probe.Dial(t, p.Addr(0)), probe.Dial(t, p.Addr(0)), probe.Dial(t, p.Addr(0)), probe.Dial(t, p.Addr(0))
			for _, w := range []*probe.Wire{talker, listener, late, gone} {
				w.Answers("hello", "hello")
				heard(t, said, "hello\r\n")
			}
			lift := p.Impose(rule)
			talker.Silent("lost")
			gone.Close()
			if lost == from {
				heard(t, said, "lost\r\n")
				heard(t, said, "end")
				// More of it is executed, although a reply was lost.
				talker.Silent("more")
				heard(t, said, "more\r\n")
			}
			probe.Dial(t, p.Addr(0)).Silent("new")
			if lost == from {
				heard(t, said, "new\r\n")
			}
			select {
			case line := <-said:
				t.Errorf("the server heard %q", line)
			case <-time.After(probe.Silence):
			}
			lift()
			talker.Dead()
			listener.Answers("still there", "still there")
			probe.Dial(t, p.Addr(0)).Answers("and new ones", "and new ones")
		})
	}
}

func TestProxyCutAndRetarget(t *testing.T) {
	p, _ := newEcho(t)
	q, said := newEcho(t)
	mine, other := probe.Dial(t, p.Addr(0)), probe.Dial(t, p.Addr(1))
	mine.Answers("1", "1")
	other.Answers("2", "2")
	lift := p.Impose(Rule{Cut: true, Only: func(client int) bool { return client == 0 }})
	mine.Dead()
	probe.Refused(t, p.Addr(0))
	other.Answers("3", "3")
	lift()
	mine = probe.Dial(t, p.Addr(0))
	mine.Answers("4", "4")
	p.Retarget(q.target)
	mine.Dead()
	other.Dead()
	probe.Dial(t, p.Addr(0)).Answers("5", "5")
	heard(t, said, "5\r\n")
}

// A rule for one way that ends leaves the other rules' losses to them.
func TestProxyRulesAddUp(t *testing.T) {
	p, _ := newEcho(t)
	first := p.Impose(Rule{To: Effect{Hold: true}})
	second := p.Impose(Rule{To: Effect{Hold: true}})
	w := probe.Dial(t, p.Addr(0))
	w.Silent("held twice")
	first()
	if reply, err := w.Receive(probe.Silence); err == nil {
		t.Errorf("heard %q although it is held by another rule", reply)
	}
	second()
	w.Receives("held twice")
}
