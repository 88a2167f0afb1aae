package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// The floor sends what fenlock sends. It is not copied from there, where it might change. A server
// tells what it is sent while it takes and releases a lock. What depends on the name, the holder
// and the moment is told from the rest.

// part is what an argument of a recorded command is.
type part uint8

const (
	constant part = iota // the same in every request
	naming               // has the lock's name in it
	striping             // the number of the name's register
	holding              // the holder that takes or releases it
	proposal             // the clock in microseconds, the least token
)

// sketch is a command whose variable parts are left open.
type sketch struct {
	parts []part
	words []string // as they were recorded, for sketchName
}

// sketches are the two commands of a cycle.
type sketches struct{ acquire, release sketch }

// floorRegisters are the registers of the floor, where many cycles are under way. Their mark is the
// same on all servers, unlike fenlock's, so that all servers can be sent the same.
const floorRegisters, floorMark = "fenlock-registers:floor:", "floor"

// sketchName has a register whose number is no other argument.
const sketchName = monitored + "0"

// monitor is a connection on which a server tells what it is sent. The client that is
// listened to is the first one that names one of these locks.
type monitor struct {
	server *testserver.Server
	conn   net.Conn
	lines  *bufio.Scanner
	client string
}

const monitored = "bench:sketch:"

func newMonitor(s *testserver.Server) (*monitor, error) {
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	m := &monitor{server: s, conn: conn, lines: bufio.NewScanner(conn)}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil || !m.lines.Scan() || m.lines.Text() != "+OK" {
		conn.Close()
		return nil, fmt.Errorf("MONITOR was answered with %q, %v", m.lines.Text(), err)
	}
	return m, nil
}

// heard returns the client's commands since the last call of it, the library's own left
// out.
func (m *monitor) heard() (all [][]string, err error) {
	end := rand.Text()
	m.server.Do("ECHO", end)
	for m.lines.Scan() {
		// The time in seconds, and [database client].
		_, line, _ := strings.Cut(m.lines.Text(), "[")
		client, line, _ := strings.Cut(line, "] ")
		words, err := unquote(line)
		if m.client == "" && strings.Contains(line, monitored) {
			m.client = client
		}
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(words, end):
			return all, nil
		case client == m.client && strings.ToUpper(words[0]) != "PING":
			all = append(all, words)
		}
	}
	return nil, fmt.Errorf("the monitor ended: %w", cmp.Or(m.lines.Err(), io.ErrUnexpectedEOF))
}

// unquote reads words in quotation marks, whose escapes are among those of Go.
func unquote(line string) (words []string, err error) {
	for rest := line; rest != ""; rest = strings.TrimPrefix(rest, " ") {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("%q is no command: %w", line, err)
		}
		word, _ := strconv.Unquote(quoted) // it was looked at
		words, rest = append(words, word), rest[len(quoted):]
	}
	if len(words) == 0 {
		return nil, errors.New("an empty line is no command")
	}
	return words, nil
}

// sketchCycle finds out what fenlock sends to a server.
func sketchCycle(b *bench) (sketches, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.ttl+10*time.Second)
	defer cancel()
	l, err := newMonitor(b.servers[0])
	if err != nil {
		return sketches{}, err
	}
	defer l.conn.Close()
	alone := *b
	alone.servers, alone.via = b.servers[:1], nil
	locker, err := alone.locker()
	if err != nil {
		return sketches{}, err
	}
	defer locker.Close()
	var s sketches
	// With the first one it connects, and does what else is done once.
	for _, name := range []string{monitored + "warm", sketchName} {
		lock, err := locker.Acquire(ctx, name)
		if err != nil {
			return sketches{}, err
		}
		holder := b.servers[0].Do("GET", valkeynode.DefaultPrefix+name)
		holder = holder[:max(0, strings.LastIndexByte(holder, ' '))] // the lease's origin follows
		acquire, err1 := l.heard()
		err2 := lock.Release(ctx)
		release, err3 := l.heard()
		if err := errors.Join(err1, err2, err3); err != nil {
			return sketches{}, err
		}
		if name != sketchName {
			continue
		}
		if len(acquire) != 1 || len(release) != 1 {
			return sketches{}, fmt.Errorf("fenlock sent %q and %q, instead of one command to acquire and one to release",
				acquire, release)
		}
		s = sketches{newSketch(acquire[0], holder), newSketch(release[0], holder)}
	}
	for _, p := range []part{naming, striping, holding, proposal} {
		if s.acquire.find(p) == "" || s.release.find(p) == "" {
			return sketches{}, fmt.Errorf("the name, its register, its holder or its token is not in %q and %q as expected",
				s.acquire.words, s.release.words)
		}
	}
	return s, nil
}

// newSketch tells the parts of a command for sketchName.
func newSketch(words []string, holder string) sketch {
	s := sketch{words: words, parts: make([]part, len(words))}
	clock := len(fmt.Sprint(time.Now().UnixMicro()))
	for i, word := range words {
		_, err := strconv.ParseUint(word, 10, 64)
		switch {
		case strings.Contains(word, sketchName):
			s.parts[i] = naming
		case word == holder:
			s.parts[i] = holding
		case word == strconv.Itoa(node.Stripe(sketchName)):
			s.parts[i] = striping
		case err == nil && len(word) == clock:
			s.parts[i] = proposal
		}
	}
	return s
}

// knowing returns the acquire of a client that knows what the server was admitted as, and looks at
// it itself. Its last argument is not empty.
func (s sketch) knowing() (sketch, error) {
	words := slices.Clone(s.words)
	last := len(words) - 1
	at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "fenlock-registers:") })
	if at < 0 || words[last] != "" || s.parts[at] != constant || s.parts[last] != constant {
		return s, fmt.Errorf("the registers, or the empty mark at the end, are not in %q as expected", words)
	}
	words[at], words[last] = floorRegisters, floorMark
	return sketch{parts: s.parts, words: words}, nil
}

// find returns the first word that is such a part, "" if there is none.
func (s sketch) find(p part) string {
	for i := range s.parts {
		if s.parts[i] == p {
			return s.words[i]
		}
	}
	return ""
}

// newHolder returns a holder of the same form as the recorded one.
func (s sketch) newHolder() string {
	recorded := s.find(holding)
	id, label, labelled := strings.Cut(recorded, ":")
	random := make([]byte, len(id))
	rand.Read(random) // never fails
	for i, b := range random {
		random[i] = "0123456789abcdef"[b%16]
	}
	if !labelled {
		return string(random)
	}
	return string(random) + ":" + label
}

// command returns what is sent for a name and a holder. It also returns where in it the proposal
// is, to be written over: -1 if there is none.
func (s sketch) command(name, holder string) (command []byte, proposalAt int) {
	proposalAt = -1
	command = fmt.Appendf(nil, "*%d\r\n", len(s.words))
	for i, word := range s.words {
		switch s.parts[i] {
		case naming:
			word = strings.ReplaceAll(word, sketchName, name)
		case striping:
			word = strconv.Itoa(node.Stripe(name))
		case holding:
			word = holder
		}
		command = fmt.Appendf(command, "$%d\r\n", len(word))
		if s.parts[i] == proposal {
			proposalAt = len(command)
		}
		command = append(append(command, word...), "\r\n"...)
	}
	return command, proposalAt
}
