package goredisnode

import (
	"bytes"
	"strings"
	"testing"
)

// feed writes a reply as the client does: each line, its end, and the bytes of strings in
// pieces.
func feed(r *reader, reply string) error {
	for len(reply) > 0 && !r.done {
		text, rest, _ := strings.Cut(reply, "\r\n")
		if text == "" {
			return nil // the client refuses it
		}
		for _, part := range []string{text, "\r\n"} {
			if _, err := r.Write([]byte(part)); err != nil {
				return err
			}
		}
		reply = rest
		if r.expects == body {
			for n := min(r.left, len(reply)); n > 0; n = min(r.left-len(r.body), len(reply), 7) {
				if r.expects != body {
					break
				}
				n = min(n, 7)
				if _, err := r.Write([]byte(reply[:n])); err != nil {
					return err
				}
				reply = reply[n:]
			}
		}
	}
	return nil
}

// What is too long is refused when its length is told, before there is memory for it.
func TestReaderBounds(t *testing.T) {
	for _, c := range []struct {
		reply string
		long  bool
		says  string
	}{
		{"$16385\r\n", false, "more than 16384 bytes"}, {"$1048577\r\n", true, "no length"}, {"$16372\r\n", false, ""},
		{"$1048560\r\n", true, ""}, {"*65\r\n", false, "more than 64 elements"}, {"*64\r\n", false, ""},
		{"%33\r\n", false, "more than 64 elements"},
		{"*24577\r\n", true, "elements"}, {"*9223372036854775807\r\n", true, "no length"},
		{"$9223372036854775807\r\n", true, "no length"},
		{"*99999999999999999999\r\n", true, "no length"}, {"$-2\r\n", false, "no length"}, {"*x\r\n", false, "no length"},
		{":x\r\n", false, "no number"},
		{strings.Repeat("*1\r\n", 6), false, ""}, {strings.Repeat("*1\r\n", 7), false, "lists within lists"},
		{"*2\r\n*40\r\n" + strings.Repeat("+a\r\n", 40) + "*40\r\n", false, "elements"},
		{"*2\r\n$9000\r\n" + strings.Repeat("a", 9000) + "\r\n$9000\r\n", false, "bytes"},
		{"|1\r\n", false, "begins no reply"}, {">1\r\n", false, "begins no reply"}, {"HTTP/1.1 400\r\n", false, "no length"},
		{"+" + strings.Repeat("a", 16385) + "\r\n", false, "bytes"},
	} {
		r := &reader{batch: &batch{}, last: true, long: c.long}
		err := feed(r, c.reply)
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.40q: %v; want %q", c.reply, err, c.says)
		}
		if cap(r.body) > 1<<20 {
			t.Errorf("%.40q: %d bytes", c.reply, cap(r.body))
		}
	}
}

// FuzzReader reads whatever a server could send. Nothing panics, and what is read is a
// reply, as it would be written.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		":7\r\n", "$5\r\nhello\r\n", "*3\r\n:1\r\n$1\r\na\r\n*0\r\n", "%1\r\n+a\r\n_\r\n", "-ERR x\r\n", "!5\r\nERR x\r\n",
		"=7\r\ntxt:abc\r\n", "$0\r\n\r\n", "*-1\r\n", "#t\r\n", ",1.5\r\n",
		"$30\r\n# Replication\r\nrole:slave\r\nab\r\n", "-READONLY x\r\n", "*2\r\n*2\r\n:1\r\n:2\r\n+x\r\n",
	} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, reply []byte, long bool) {
		r := &reader{batch: &batch{}, last: true, long: long}
		err := feed(r, string(reply))
		if err == nil && r.done && len(r.open) > 0 {
			t.Errorf("%q is read, and not ended", reply)
		}
		if bytes.HasPrefix(reply, []byte(":7\r\n")) {
			if n, err := r.reply.AsInt64(); n != 7 || err != nil {
				t.Errorf("%q: %d, %v", reply, n, err)
			}
		}
	})
}
