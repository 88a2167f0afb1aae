package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/node"
)

// listen serves each connection to a loopback port, until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); wait.Wait() })
	return listener.Addr().String()
}

// echo answers each line n with the reply to n.
func echo(reply func(n int) string) func(net.Conn) {
	return func(conn net.Conn) {
		lines := bufio.NewScanner(conn)
		for n := 1; lines.Scan(); n++ {
			if _, err := io.WriteString(conn, reply(n)); err != nil {
				return
			}
		}
	}
}

func one(int) string { return ":1\r\n" }

// pipelineTo returns a pipeline that is closed when the test ends.
func pipelineTo(t *testing.T, addresses []string, need int) *pipeline {
	t.Helper()
	p, err := newPipeline(addresses, need)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func TestPipelineWaitsForEnough(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	late := func(int) string { <-hold; return ":1\r\n" }
	addresses := []string{listen(t, echo(one)), listen(t, echo(one)), listen(t, echo(late))}
	p := pipelineTo(t, addresses, 2)
	// The third server answers none of them before the other two have answered all.
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			call := p.newCall()
			for range 100 {
				if err := p.do(call, []byte("x\r\n")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if n := p.answered[2].Load(); n != 0 {
		t.Errorf("the third server has answered %d times", n)
	}
	q := pipelineTo(t, addresses, 3)
	done := make(chan error)
	go func() { done <- q.do(q.newCall(), []byte("x\r\n")) }()
	select {
	case <-done:
		t.Error("it did not wait for all three")
	case <-time.After(20 * time.Millisecond):
	}
	close(hold)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// More calls than the ring has places: the slowest server is waited for.
func TestPipelineDoesNotOutrunItsRing(t *testing.T) {
	t.Parallel()
	slow := func(n int) string {
		if n == 1 {
			time.Sleep(50 * time.Millisecond)
		}
		return ":1\r\n"
	}
	p := pipelineTo(t, []string{listen(t, echo(one)), listen(t, echo(slow))}, 1)
	call := p.newCall()
	for range len(p.ring) + 100 {
		if err := p.do(call, []byte("x\r\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is no number, from any server, ends all calls.
func TestPipelineRefusesOtherReplies(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"-ERR no\r\n", "+rejoining\r\n", "*4\r\n", "$-1\r\n", ":\r\n", ":1\n", ":-1\r\n"} {
		third := func(n int) string {
			if n == 3 {
				return bad
			}
			return ":1\r\n"
		}
		p := pipelineTo(t, []string{listen(t, echo(one)), listen(t, echo(third))}, 2)
		call := p.newCall()
		for n := 1; n <= 4; n++ {
			if err := p.do(call, []byte("x\r\n")); (err != nil) != (n >= 3) {
				t.Errorf("%q: call %d: %v", bad, n, err)
			}
		}
	}
}

func TestPipelineMakesNoGarbage(t *testing.T) {
	p := pipelineTo(t, []string{listen(t, func(conn net.Conn) {
		// A server without garbage, too, since all allocations of the process count.
		buffer, replies := make([]byte, 4096), bytes.Repeat([]byte(":1\r\n"), 1024)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			conn.Write(replies[:4*bytes.Count(buffer[:n], []byte("\n"))])
		}
	})}, 1)
	call, command := p.newCall(), []byte("x\r\n")
	do := func() {
		if err := p.do(call, command); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, do); n > 0 {
		t.Errorf("%v allocations per call", n)
	}
}

func TestMonitor(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	m, err := newMonitor(s)
	if err != nil {
		t.Fatal(err)
	}
	defer m.conn.Close()
	client := probe.Dial(t, s.Addr())
	for range 2 {
		s.Do("SET", "somebody", "else")
		client.Answers("PING", "+PONG")
		client.Answers(`SET bench:sketch:2 "a\r\n\"] \\\x00\xff" PX 5`, "+OK")
		client.Answers(`EVAL "return redis.call('GET', 'x')" 0`, "$-1")
		got, err := m.heard()
		want := [][]string{{"SET", "bench:sketch:2", "a\r\n\"] \\\x00\xff", "PX", "5"},
			{"EVAL", "return redis.call('GET', 'x')", "0"}}
		if m.client == "" || err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	for _, bad := range []string{"", "GET", `"GET" x`, `"GET`, `"\q"`} {
		if words, err := unquote(bad); err == nil {
			t.Errorf("%q: no error, %q", bad, words)
		}
	}
}

func TestSketch(t *testing.T) {
	stripe := func(name string) string { return fmt.Sprint(node.Stripe(name)) }
	words := []string{"EVALSHA", "abc", "3", "p:" + sketchName, "registers", "line:" + sketchName, "00ff:host/1", "10000",
		stripe(sketchName), fmt.Sprint(time.Now().UnixMicro())}
	s := newSketch(words, "00ff:host/1")
	holder := s.newHolder()
	if len(holder) != len("00ff:host/1") || !strings.HasSuffix(holder, ":host/1") {
		t.Errorf("the holder %q has not the form of 00ff:host/1", holder)
	}
	command, at := s.command("x", "me")
	if got := string(command[at : at+len(words[9])]); got != words[9] {
		t.Errorf("%q is where the proposal should be", got)
	}
	want := "*10\r\n"
	for _, word := range []string{"EVALSHA", "abc", "3", "p:x", "registers", "line:x", "me", "10000", stripe("x"),
		words[9]} {
		want += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if string(command) != want {
		t.Errorf("%q; want %q", command, want)
	}
}

// What is said when there is no listener any more does not keep it from being closed.
func TestFloorHandoverCloses(t *testing.T) {
	const said = 20
	var all sync.WaitGroup
	all.Add(1)
	address := listen(t, func(conn net.Conn) {
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "*2\r\n" {
			return // the pipeline's
		}
		io.WriteString(conn, "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n")
		for range said {
			time.Sleep(time.Millisecond)
			io.WriteString(conn, "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\n1\r\n")
		}
		all.Done()
		io.Copy(io.Discard, conn)
	})
	p, err := newPipeline([]string{address}, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &floorHandover{pipeline: p, heard: make(chan told, 2), done: make(chan struct{})}
	if err := f.listen(0, address, "x"); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	f.close()
	if len(f.heard) != cap(f.heard) {
		t.Errorf("%d were heard of", len(f.heard))
	}
}

// Alone, the floor's script looks at the server, as fenlock's does; among others none does.
func TestFloorLooksOnlyAlone(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	b := tiny(4 * time.Second)
	b.kind = testserver.Kinds(t)[0]
	b.t = t
	b, err := b.on(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	c, err := openFloor(all)(b)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	infos := func() int { return snapshot(b.servers[1:])[0]["info"] }
	before := infos() // and one more for each call of it
	var releases []func() error
	for i := range 5 {
		release, err := c.acquire(ctx, fmt.Sprint("name ", i))
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	for _, release := range releases {
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	if n := infos() - before - 1; n != together-1 {
		t.Errorf("%d of 5 locks that were held at once looked at the server, want %d", n, together-1)
	}
	for i, words := range [][]string{
		{"EVALSHA", "abc", "3", "key", "fenlock-registers:", "line", "me", "10000", "1", "2", "x"},
		{"EVALSHA", "abc", "3", "key", "registers", "line", "me", "10000", "1", "2", ""},
	} {
		if _, err := (sketch{parts: make([]part, len(words)), words: words}).knowing(); err == nil {
			t.Errorf("form %d: no error", i)
		}
	}
}

func TestHearsMessagesInPieces(t *testing.T) {
	t.Parallel()
	message := string(encode("message", "floor:1", "12 1"))
	in := bufio.NewReader(iotest.OneByteReader(strings.NewReader(message + message + "-ERR no\r\n\r\n\r\n")))
	for range 2 {
		if err := hear(in, "message", 7); err != nil {
			t.Error(err)
		}
	}
	if err := hear(in, "message", 7); err == nil {
		t.Error("heard a message that was none")
	}
}
