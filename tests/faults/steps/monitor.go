//go:build linux

package steps

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// line is one that MONITOR has told: a command, by a client or by a script.
type line struct {
	at   float64 // ms, on the server's clock
	lua  bool
	args []string
}

// parseLine reads a line: +1700000000.123456 [0 127.0.0.1:4711] "set" "k" "v"
func parseLine(text string) (l line, err error) {
	stamp, rest, ok := strings.Cut(strings.TrimPrefix(text, "+"), " ")
	seconds, fraction, _ := strings.Cut(stamp, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, errFraction := strconv.ParseInt(fraction, 10, 64)
	source, rest, found := strings.Cut(rest, "] ")
	if err = errors.Join(err, errFraction); err != nil || !ok || !found {
		return l, fmt.Errorf("what is the line %.200q?", text)
	}
	l.at = float64(s)*1000 + float64(us)/1000
	l.lua = strings.HasSuffix(source, " lua")
	for rest != "" {
		end := 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if rest[0] != '"' || end >= len(rest) {
			return l, fmt.Errorf("what is %.200q in a line?", rest)
		}
		arg, err := strconv.Unquote(rest[:end+1]) // the server's escapes are among those of Go
		if err != nil {
			return l, fmt.Errorf("what is %.200q in a line: %w", rest[:end+1], err)
		}
		l.args = append(l.args, arg)
		rest = strings.TrimPrefix(rest[end+1:], " ")
	}
	if len(l.args) == 0 {
		return l, fmt.Errorf("the line %.200q has no command", text)
	}
	l.args[0] = strings.ToUpper(l.args[0])
	return l, nil
}

// monitor has a server tell each command that it carries out. The connection is to be closed.
func monitor(addr, user, password string, patience time.Duration) (net.Conn, *bufio.Reader, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	lines := bufio.NewReaderSize(conn, 1<<20)
	for _, command := range []string{"AUTH " + user + " " + password, "MONITOR"} {
		fmt.Fprintf(conn, "%s\r\n", command)
		reply, err := lines.ReadString('\n')
		if err == nil && reply != "+OK\r\n" {
			err = errors.New(strings.TrimSpace(reply))
		}
		if err != nil {
			conn.Close()
			return nil, nil, err
		}
	}
	conn.SetDeadline(time.Time{})
	return conn, lines, nil
}
