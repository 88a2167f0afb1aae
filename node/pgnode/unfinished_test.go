package pgnode

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// message is one of PostgreSQL's protocol.
func message(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))) + body
}

// ends is a value whose arrival ends a context.
type ends struct{ end func() }

func (e ends) Scan(any) error {
	e.end()
	time.Sleep(20 * time.Millisecond) // for database/sql to hear of it
	return nil
}

// A row is not yet a commit: where the context ends between the two, the outcome is unknown.
func TestRowWithoutCommit(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				asked := make([]byte, 4096)
				if _, err := io.ReadAtLeast(c, asked, 8); err != nil || asked[3] == 16 {
					return // it cancels
				}
				io.WriteString(c, message('R', "\x00\x00\x00\x00")+message('Z', "I"))
				io.ReadAtLeast(c, asked, 8)
				column := "a\x00" + "\x00\x00\x00\x00" + "\x00\x00" + "\x00\x00\x00\x17" + "\x00\x04" + "\xff\xff\xff\xff" +
					"\x00\x00"
				io.WriteString(c, message('1', "")+message('2', "")+message('T', "\x00\x01"+column)+
					message('D', "\x00\x01\x00\x00\x00\x011")+message('C', "SELECT 1\x00"))
				io.Copy(io.Discard, c) // and never that it is ready again
			}()
		}
	}()
	n := open(t, "postgres://u@"+l.Addr().String()+"/d?sslmode=disable")
	n.unnamed.Store(true) // all of it is sent at once
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := n.query(ctx, "SELECT 1", nil, ends{cancel}); err == nil {
		t.Error("a statement that has not ended succeeded")
	}
}
