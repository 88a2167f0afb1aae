package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// The floor sends what fenlock sends. It is not copied from there, where it might
// change: a Locker is listened to while it takes and releases two locks, and what
// the requests have in common is told from what depends on the name, the holder
// and the moment.

// part is what an argument of a recorded command is.
type part uint8

const (
	constant part = iota // the same in every request
	naming               // has the lock's name in it
	striping             // the number of the name's register
	holding              // who takes or releases it
	proposal             // the clock in microseconds, the least token
)

// sketch is a command whose variable parts are left open.
type sketch struct {
	parts []part
	words []string // as they were recorded, for sketchName
}

// sketches are the two commands of a cycle.
type sketches struct{ acquire, release sketch }

// The names are as long as each other, and have different registers.
const sketchName, otherName = "bench:sketch:0", "bench:sketch:1"

// listener keeps what clients send through a relay.
type listener struct {
	mu      sync.Mutex
	streams []*bytes.Buffer // one per connection
}

func (l *listener) tap() func([]byte) {
	var stream bytes.Buffer
	l.mu.Lock()
	l.streams = append(l.streams, &stream)
	l.mu.Unlock()
	return func(b []byte) {
		l.mu.Lock()
		stream.Write(b)
		l.mu.Unlock()
	}
}

// heard returns the commands since the last call of it, the library's own left
// out.
func (l *listener) heard() (all [][]string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stream := range l.streams {
		for stream.Len() > 0 {
			command, err := readCommand(stream)
			if err != nil {
				return nil, err
			}
			if len(command) > 0 && strings.ToUpper(command[0]) != "PING" {
				all = append(all, command)
			}
		}
	}
	return all, nil
}

// readCommand reads an array of strings, as clients send commands.
func readCommand(b *bytes.Buffer) (words []string, err error) {
	length := func(sigil byte) (int, error) {
		line, err := b.ReadString('\n')
		if err != nil || len(line) < 4 || line[0] != sigil {
			return 0, fmt.Errorf("%q is not the beginning of a command or word", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := length('*')
	if err != nil {
		return nil, err
	}
	for range n {
		size, err := length('$')
		if err != nil {
			return nil, err
		}
		if b.Len() < size+2 {
			return nil, errors.New("a command breaks off")
		}
		words = append(words, string(b.Next(size + 2)[:size]))
	}
	return words, nil
}

// sketchCycle finds out what fenlock sends to a server.
func sketchCycle(b *bench) (sketches, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.ttl+10*time.Second)
	defer cancel()
	var l listener
	r, err := newRelay(b.addresses()[0], 0, l.tap)
	if err != nil {
		return sketches{}, err
	}
	defer r.close()
	alone := *b
	alone.servers, alone.via = b.servers[:1], []string{r.address()}
	locker, err := alone.locker()
	if err != nil {
		return sketches{}, err
	}
	defer locker.Close()
	var heard [2][2][]string // by name; acquire and release
	for i, name := range []string{"bench:warm", sketchName, otherName} {
		lock, err := locker.Acquire(ctx, name)
		if err != nil {
			return sketches{}, err
		}
		acquire, err := l.heard()
		if err != nil {
			return sketches{}, err
		}
		if err := lock.Release(ctx); err != nil {
			return sketches{}, err
		}
		release, err := l.heard()
		if err != nil {
			return sketches{}, err
		}
		if i == 0 { // connecting, and what else is done once
			continue
		}
		if len(acquire) != 1 || len(release) != 1 {
			return sketches{}, fmt.Errorf("fenlock sent %q and %q, instead of one command to acquire and one to release", acquire, release)
		}
		heard[i-1] = [2][]string{acquire[0], release[0]}
	}
	var s sketches
	var errs [2]error
	s.acquire, errs[0] = newSketch(heard[0][0], heard[1][0])
	s.release, errs[1] = newSketch(heard[0][1], heard[1][1])
	if err := errors.Join(errs[:]...); err != nil {
		return sketches{}, err
	}
	if s.acquire.find(holding) == "" || s.acquire.find(holding) != s.release.find(holding) || s.acquire.find(proposal) == "" || s.release.find(proposal) != "" {
		return sketches{}, fmt.Errorf("who holds the lock, or its token, is not in %q and %q as expected", s.acquire.words, s.release.words)
	}
	return s, nil
}

// newSketch compares the same command for two names.
func newSketch(words, other []string) (sketch, error) {
	s := sketch{words: words}
	if len(words) != len(other) {
		return s, fmt.Errorf("%q and %q have not the same form", words, other)
	}
	clock := len(fmt.Sprint(time.Now().UnixMicro()))
	for i, word := range words {
		_, err := strconv.ParseUint(word, 10, 64)
		number := err == nil
		switch {
		case strings.Contains(word, sketchName) && strings.ReplaceAll(word, sketchName, otherName) == other[i]:
			s.parts = append(s.parts, naming)
		case word == strconv.Itoa(node.Stripe(sketchName)) && other[i] == strconv.Itoa(node.Stripe(otherName)):
			s.parts = append(s.parts, striping)
		case word == other[i]:
			s.parts = append(s.parts, constant)
		case number && len(word) == clock && len(other[i]) == clock:
			s.parts = append(s.parts, proposal)
		case !number && len(word) == len(other[i]):
			s.parts = append(s.parts, holding)
		default:
			return s, fmt.Errorf("it is not known what %q is in %q", word, words)
		}
	}
	return s, nil
}

// knowing returns the acquire of a client that knows what the server was admitted as,
// and looks at it itself: its last argument is not empty.
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

// command returns what is sent for a name and a holder, and where in it the
// proposal is, to be written over: -1 if there is none.
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
