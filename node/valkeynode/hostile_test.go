package valkeynode

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Serve starts a server that answers each command with a reply, by what accept returns for its
// connection. Nil ends the connection, and an empty reply is silence.
func Serve(t testing.TB, accept func() (reply func(args []string) []byte)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve := func(conn net.Conn, reply func(args []string) []byte) {
		defer conn.Close()
		for commands := bufio.NewReader(conn); ; {
			args, err := readWords(commands)
			if err != nil {
				return
			}
			answer := reply(args)
			if answer == nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn, accept())
		}
	}()
	return l
}

// newHostile starts a server that answers each command with the next of its replies, as it is, and
// begins again after the last. The reply "@" is what a server would say that means well.
func newHostile(t testing.TB, replies [][]byte) net.Listener {
	t.Helper()
	return Serve(t, func() func([]string) []byte {
		nth := -1
		return func(args []string) []byte {
			nth++
			if reply := replies[nth%len(replies)]; string(reply) != "@" {
				return reply
			}
			return honest(args)
		}
	})
}

// readWords reads a command.
func readWords(r *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		line, e := r.ReadString('\n')
		if e == nil && len(line) > 2 {
			n, e = strconv.Atoi(line[1 : len(line)-2])
		}
		if err == nil {
			err = e
		}
		return n
	}
	for left := number(); left > 0 && err == nil; left-- {
		word := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, word)
		}
		words = append(words, string(word[:len(word)-2]))
	}
	return words, err
}

// info is what a server says of itself.
const info = "# Server\r\nredis_version:7.2.4\r\nserver_mode:standalone\r\nrun_id:0123abc\r\nmaster_replid:4567def\r\nuptime_in_seconds:90\r\n" +
	"maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:0\r\nrole:master\r\nsecond_repl_offset:-1\r\ncluster_enabled:0\r\n"

// honest is the reply of a server that has been admitted.
func honest(args []string) []byte {
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	reply := ":7\r\n"
	switch args[0] {
	case "HELLO":
		reply = "%2\r\n+proto\r\n:3\r\n+version\r\n+8.0.1\r\n"
	case "INFO":
		reply = bulk(info)
	case "HMGET":
		reply = fmt.Sprintf("*%d\r\n", len(args)-2)
		for _, field := range args[2:] {
			reply += bulk(map[string]string{"admitted": "4567def", "maxttl": "1000", "durable": "1"}[field])
		}
	case "SCRIPT":
		if reply = fmt.Sprintf("*%d\r\n", len(args)-2) + strings.Repeat(":1\r\n", len(args)-2); args[1] == "LOAD" {
			sum := sha1.Sum([]byte(args[2]))
			reply = bulk(hex.EncodeToString(sum[:]))
		}
	case "CONFIG":
		reply = "*0\r\n"
	case "EVAL":
		reply = "+admitted\r\n"
	case "SUBSCRIBE":
		reply = ">3\r\n+subscribe\r\n" + bulk(args[1]) + ":1\r\n"
	case "MULTI":
		reply = "+OK\r\n"
	case "SCAN":
		reply = "*2\r\n$1\r\n0\r\n*1\r\n" + bulk("fenlock:a")
	case "PING":
		reply = "+PONG\r\n"
	}
	return []byte(reply)
}

// meet lets a node do everything with a server, and returns how much memory it held at
// once. What was allocated says nothing of that: a node connects again and again.
func meet(t testing.TB, replies [][]byte) (held uint64) {
	l := newHostile(t, replies)
	defer l.Close()
	most := watchMemory()
	n, err := Open("valkey://:swordfish@" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second, Warn: func(node.Node, string) {}})
	r := node.Request{Op: node.Acquire, Name: "a", Holder: "h", TTL: time.Second, Token: 1}
	for _, do := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := n.Do(ctx, r); return err },
		func(ctx context.Context) error {
			return n.Listen(ctx, "0123456789abcdef0123456789abcdef", func(string) {})
		},
		func(ctx context.Context) error { _, err := n.Inspect(ctx, "a"); return err },
		func(ctx context.Context) error { return n.List(ctx, "", func(node.Lease) bool { return true }) },
		func(ctx context.Context) error { _, err := n.Registers(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		err := do(ctx)
		cancel()
		if err != nil && (!strings.Contains(err.Error(), n.String()) || strings.Contains(err.Error(), "swordfish")) {
			t.Errorf("the error %v", err)
		}
	}
	held = most()
	n.Close()
	return held
}

// watchMemory collects garbage again and again. The function that it returns ends
// that, and says how much more was in use at once than at first.
func watchMemory() (most func() uint64) {
	inUse := func() uint64 {
		runtime.GC()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	first, end, result := inUse(), make(chan struct{}), make(chan uint64)
	go func() {
		largest := first
		for {
			largest = max(largest, inUse())
			select {
			case <-end:
				result <- largest - first
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(end)
		return <-result
	}
}

// FuzzSocket lets a node meet servers that reply anything, with the client library's
// own parser: nothing panics, and what it holds is bounded.
func FuzzSocket(f *testing.F) {
	for _, s := range []string{
		"@", "@\x00@\x00:1\r\n", "@\x00$-2\r\n", "@\x00*-5\r\n", "$9223372036854775807\r\n", "@\x00@\x00*100000000000\r\n",
		"@\x00*1000000000\r\n",
		"@\x00@\x00+OK\r\n+OK\r\n", "+OK\r\n", "@\x00@\x00@\x00@\x00@\x00@\x00@\x00@\x00>3\r\n+subscribe\r\n+c\r\n:1\r\n",
		"@\x00>2\r\n+message\r\n+c\r\n@",
		"%1\r\n+proto\r\n:2\r\n\x00@\x00*3\r\n+subscribe\r\n+c\r\n:1\r\n", "-ERR unknown command `HELLO`\r\n\x00@",
		"%1\r\n+proto\r\n:3\r\n\x00@\x00%1\r\n+version\r\n+6.0\r\n",
		"@\x00" + strings.Repeat("*1\r\n", 1000), "@\x00>3\r\n+unsubscribe\r\n+c\r\n:0\r\n", "@\x00|1\r\n+a\r\n+b\r\n",
		"@\x00$?\r\n;4\r\nabcd\r\n;0\r\n",
		"@\x00>2\r\n+invalidate\r\n*1\r\n+a\r\n", "@\x00>2\r\n:1\r\n:2\r\n", "@\x00_\r\n", "@\x00#t\r\n",
		"HTTP/1.1 400 Bad Request\r\n\r\n", "$-1\r\n", ":17\r\n", "*0\r\n", ">2\r\n+hello\r\n+world\r\n", "\r\n\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if held := meet(t, bytes.Split(input, []byte{0})); held > 32<<20 {
			t.Errorf("%d bytes were held", held)
		}
	})
}

// TestHostileServersHoldLittle lets servers send as much as they can get away with.
func TestHostileServersHoldLittle(t *testing.T) {
	many := bytes.Repeat([]byte("*1000\r\n"+strings.Repeat("_\r\n", 1000)), 24)
	for name, replies := range map[string][][]byte{
		"an endless line":   {[]byte("@"), append([]byte("+"), bytes.Repeat([]byte("a"), 64<<20)...)},
		"a long string":     {[]byte("@"), append([]byte("$1073741824\r\n"), bytes.Repeat([]byte("a"), 64<<20)...)},
		"a huge array":      {[]byte("@"), []byte("*2000000\r\n")},
		"a huge map":        {[]byte("@"), []byte("%1000000\r\n")},
		"large arrays":      {[]byte("@"), append([]byte("*24\r\n"), many...)},
		"arrays of nothing": {[]byte("@"), append([]byte("*24000\r\n"), bytes.Repeat([]byte("*0\r\n"), 24000)...)},
	} {
		t.Run(name, func(t *testing.T) {
			if held := meet(t, replies); held > 32<<20 {
				t.Errorf("%d MiB were held", held>>20)
			}
		})
	}
}
