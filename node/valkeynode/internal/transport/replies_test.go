package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"
)

// replied returns what the client library makes of a reply to a command, on a
// connection on which so many bytes come at a time. After the reply it is closed.
func replied(t *testing.T, reply string, at int) error {
	t.Helper()
	opt := pipelined(valkey.ClientOption{InitAddress: []string{"pipe"}})
	opt.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		// A write to a pipe ends when all of it was read, so that no two are read at once.
		server, conn := net.Pipe()
		go func() {
			defer server.Close()
			request := make([]byte, writeBuffer)
			for {
				n, err := server.Read(request)
				if err != nil {
					return
				}
				if bytes.Contains(request[:n], []byte("HELLO")) {
					fmt.Fprint(server, "%1\r\n+proto\r\n:3\r\n")
					continue
				}
				for piece := range slices.Chunk([]byte(reply), at) {
					if _, err := server.Write(piece); err != nil {
						return
					}
				}
				return
			}
		}()
		return newFramed(conn, func(err error) error { return err }), nil
	}
	client, err := valkey.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return client.Do(context.Background(), client.B().Ping().Build()).NonValkeyError()
}

// TestDamagedReplies damages a reply of every type in every way, and lets it come in
// pieces of every size. The library, which believes each byte of it, must see nothing
// of it: it would take the rest of a reply for others, and panic.
func TestDamagedReplies(t *testing.T) {
	const text, numbers, blobs = "+-,(", ":$!=*~%", "$!="
	for _, good := range []string{
		"+OK\r\n", "+PONG\r\n", "-ERR no\r\n", ",1.5\r\n", "(12345\r\n", ":12\r\n", "_\r\n", "#t\r\n", "#f\r\n",
		"$3\r\nabc\r\n", "$0\r\n\r\n", "$-1\r\n", "!3\r\nERR\r\n", "=7\r\ntxt:abc\r\n", "*1\r\n:1\r\n", "*-1\r\n",
		"~1\r\n#t\r\n", "%1\r\n+a\r\n_\r\n",
	} {
		kind, line := good[:1], good[:strings.Index(good, "\r\n")]
		rest := good[len(line)+2:]
		bad := []string{
			line + "\n" + rest, line + "\r" + rest, line + rest, line + "\r\r\n" + rest, line + "\n\r" + rest,
			kind + "\n" + line[1:] + "\r\n" + rest, kind + "\r" + line[1:] + "\r\n" + rest, kind, kind + "\n",
			strings.ReplaceAll(good, "\r\n", ""), strings.ReplaceAll(good, "\r\n", "\n"), strings.ReplaceAll(good, "\r\n", "\r"),
			kind + ",", kind + "??", kind + kind + kind, "|1\r\n+a\r\n+b\r\n" + good, "." + line[1:] + "\r\n",
			";" + line[1:] + "\r\n" + rest,
		}
		if !strings.Contains(text, kind) {
			bad = append(bad, line+"x\r\n"+rest, line+",\r\n"+rest, line+" \r\n"+rest, kind+"?\r\n"+rest, kind+"?\r\n.\r\n",
				kind+"-\r\n"+rest,
				kind+"x\r\n"+rest, kind+strings.Repeat("1", 30)+"\r\n"+rest)
		}
		if strings.Contains(numbers, kind) {
			bad = append(bad, kind+"\r\n"+rest, kind+"+1\r\n"+rest, kind+"9223372036854775808\r\n"+rest)
		}
		if strings.Contains(numbers[1:], kind) {
			bad = append(bad, kind+"-2\r\n"+rest, kind+"4611686018427387905\r\n"+rest, kind+"9223372036854775807\r\n"+rest,
				kind+"1000000000\r\n"+rest)
		}
		if strings.Contains(blobs, kind) && rest != "" {
			n := len(rest) - 2
			bad = append(bad, kind+fmt.Sprint(n+1)+"\r\n"+rest, line+"\r\n"+rest[:n]+"x\r\n", line+"\r\n"+rest[:n]+"\n\n",
				line+"\r\n"+rest[:n]+"\r\r", line+"\r\n"+rest[:n]+"xx", kind+"?\r\n;"+line[1:]+"\r\n"+rest+";0\r\n")
			if n > 0 {
				bad = append(bad, kind+fmt.Sprint(n-1)+"\r\n"+rest)
			}
		}
		for _, in := range []string{"", "*2\r\n"} { // alone, and in an array
			for at := range len(in + good) {
				whole := in + good
				if in != "" {
					whole += good
				}
				if err := replied(t, whole, at+1); err != nil {
					t.Errorf("%q, %d bytes at a time: %v", whole, at+1, err)
				}
			}
			for _, damaged := range bad {
				// Again and again: what is left of one makes others.
				for at := range len(damaged) {
					if err := replied(t, in+strings.Repeat(damaged, 8), at+1); err == nil {
						t.Errorf("%q, %d bytes at a time: no error", in+damaged, at+1)
					}
				}
			}
		}
	}
}
