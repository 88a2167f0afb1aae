package transport

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// pieces is a connection on which a text comes, so many bytes at a time.
type pieces struct {
	net.Conn
	text []byte
	at   int
}

func (p *pieces) Read(b []byte) (int, error) {
	switch {
	case len(b) == 0: // as crypto/tls does
		return 0, nil
	case len(p.text) == 0:
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(p.at, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

func (p *pieces) SetReadDeadline(time.Time) error { return nil }

func (p *pieces) Close() error {
	p.text = nil
	return nil
}

// scanned feeds replies to one who has sent these commands, so many bytes at a time.
func scanned(commands, replies string, at int) error {
	f := newFramed(nil, func(err error) error { return err })
	for _, words := range strings.Split(commands, ";") {
		args := strings.Fields(words)
		var b bytes.Buffer
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, arg := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
		}
		for text := b.Bytes(); len(text) > 0 && len(args) > 0; {
			n := min(at, len(text))
			if err := f.request.scan(text[:n]); err != nil {
				return err
			}
			text = text[n:]
		}
	}
	f.Conn = &pieces{text: []byte(replies), at: at}
	got, err := io.ReadAll(f)
	if n, again := f.Read(make([]byte, 1)); n > 0 || again == nil {
		return fmt.Errorf("%d bytes were read after the end", n)
	}
	if err == nil && string(got) != replies {
		return fmt.Errorf("%q was read", got)
	}
	return err
}

func TestFraming(t *testing.T) {
	long := strings.Repeat("x", maxBytes)
	for _, c := range []struct {
		commands, replies string
		want              string // in the error, "" for none
	}{
		{"PING", "+PONG\r\n", ""},
		{"PING;PING", "+PONG\r\n-ERR no\r\n", ""},
		{"GET a;GET b", "$3\r\none\r\n$-1\r\n", ""},
		{"GET a;GET b", "$0\r\n\r\n*-1\r\n", ""},
		{"HELLO 3", "%2\r\n+proto\r\n:3\r\n$7\r\nmodules\r\n*1\r\n*0\r\n", ""},
		{"X", "*8\r\n_\r\n#t\r\n,1.5\r\n(123456789012345678901234567890\r\n=7\r\ntxt:abc\r\n!3\r\nERR\r\n~1\r\n:-1\r\n:9223372036854775807\r\n", ""},
		{"SUBSCRIBE c;PING", ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n>3\r\n+message\r\n+c\r\n+hello\r\n+PONG\r\n", ""},
		{"SUBSCRIBE c", "-NOPERM no\r\n", ""},
		{"", ">3\r\n+message\r\n+c\r\n+hello\r\n", ""},
		{"INFO", fmt.Sprintf("$%d\r\n%s\r\n", 3*maxBytes, long+long+long), ""},

		{"", "+PONG\r\n", "nothing was asked for"},
		{"PING", "+PONG\r\n+PONG\r\n", "nothing was asked for"},
		{"PING", "$-2\r\n", "no length"},
		{"PING", "*-5\r\n", "no length"},
		{"PING", "%-1\r\n", "-1"},
		{"PING", "=-1\r\n", "-1"},
		{"PING", "$9223372036854775807\r\n", "no length"},
		{"PING", "$99999999999999999999999\r\n", "no length"},
		{"PING", "$\r\n", "no length"},
		{"PING", "$-\r\n", "no length"},
		{"PING", "$1x\r\n", "no length"},
		{"PING", "$?\r\n", "no length"},
		{"PING", "*100000000000\r\n", "no length"},
		{"PING", "*1000000000\r\n", "elements"},
		{"PING", "*64\r\n*1\r\n", "elements"},
		{"INFO", "%12289\r\n", "elements"},
		{"PING", "+" + long, "longer than"},
		{"PING", "*40\r\n" + strings.Repeat("+"+long[:1000]+"\r\n", 40), "bytes"},
		{"PING", fmt.Sprintf("$%d\r\n", maxBytes), "bytes"},
		{"INFO", fmt.Sprintf("$%d\r\n", maxManyBytes+1), "bytes"},
		{"PING", strings.Repeat("*1\r\n", maxDepth+1), "within"},
		{"PING", "*1\r\n>2\r\n", "message within"},
		{"PING", "$3\r\nabcd\r\n", "longer than it was"},
		{"PING", "+PONG\n", "carriage return"},
		{"PING", "+PO\rNG\r\n", "within a line"},
		{"PING", ":x\r\n", "no number"},
		{"PING", ":\r\n", "no number"},
		{"PING", "_x\r\n", "null"},
		{"PING", "#true\r\n", "boolean"},
		{"PING", "#\r\n", "boolean"},
		{"PING", "#x\r\n", "boolean"},
		{"PING", ":-\r\n", "no number"},
		{"PING", ":+1\r\n", "no number"},
		{"PING", ":12345678901x\r\n", "no number"},
		{"PING", ":9223372036854775808\r\n", "no number"},
		{"PING", ".\r\n", "begins no reply"},
		{"PING", ";1\r\n", "begins no reply"},
		{"PING", "\r\n", "begins no reply"},
		{"PING", "|1\r\n+a\r\n+b\r\n+PONG\r\n", "begins no reply"},
		{"PING", "HTTP/1.1 400 Bad Request\r\n", "HTTP"},
		{"PING", "HTTP/1.1", "HTTP"},
		{"PING", "HTML\r\n", "begins no reply"},
		{"PING", "<!DOCTYPE HTML>\n<html lang=\"en\">\n", "an HTTP server"},
		{"PING", "<html>\n<head><title>400 Bad Request", "an HTTP server"},
		{"PING", "<xml", "begins no reply"},
		{"PING", "\x15\x03\x01\x00\x02\x02\x0a", "wants TLS"},
		{"PING", "\x16\x03\x01\x00\r\n", "begins no reply"},
		{"PING", ">3\r\n+subscribe\r\n+c\r\n:1\r\n", "was not asked for"},
		{"PING", ">3\r\n$10\r\npsubscribe\r\n+c\r\n:1\r\n", "was not asked for"},
		{"SUBSCRIBE c", "+QUEUED\r\n", "reply to a subscription"},
		{"SUBSCRIBE c", "-QUEUED\r\n", "QUEUED"},
		{"SUBSCRIBE c", "!6\r\nQUEUED\r\n", "long error"},
		{"SUBSCRIBE c;PING", ">1\r\n$9\r\nsubscribe\r\n+QUEUED\r\n", "was not asked for"},
		{"SUBSCRIBE c;PING", ">3\r\n+Subscribe\r\n+c\r\n:1\r\n+QUEUED\r\n", "reply to a subscription"},
		{"HELLO 2;SUBSCRIBE c", "", "RESP3"},
	} {
		for _, at := range []int{1, 7, 1 << 20} {
			err := scanned(c.commands, c.replies, at)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q answered %.60q, %d bytes at a time: %v, expected %q", c.commands, c.replies, at, err, c.want)
			}
		}
	}
}

// A connection in use for long keeps nothing of what is over.
func TestFramingForgets(t *testing.T) {
	var a asked
	for range 3 {
		a.push(little)
	}
	for range 100_000 {
		if err := a.push(little); err != nil {
			t.Fatal(err)
		}
		a.pop()
	}
	if len(a.waiting)-a.head != 3 || cap(a.waiting) > 1000 {
		t.Errorf("%d wait, in memory for %d", len(a.waiting)-a.head, cap(a.waiting))
	}
	for range maxOutstanding - 3 {
		a.push(little)
	}
	if err := a.push(little); err == nil {
		t.Error("no end of commands without a reply")
	}
}
