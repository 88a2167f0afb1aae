package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// floorHandover is what a handover costs at the least, if the release has the servers tell the
// waiter. A script writes a lease and publishes, on raw sockets, to a listener that counts what a
// majority has told. It is no lock: there is no queue, nothing is checked, no number is promised.
type floorHandover struct {
	pipeline *pipeline
	call     *call
	release  []byte
	heard    chan told
	done     chan struct{} // closed when there is no listener any more
	conns    []net.Conn
	wait     sync.WaitGroup
}

// told is a message to the waiter, or why a server sends no more.
type told struct {
	server int
	err    error
}

const floorLease = "floor:lease"

const floorRelease = `redis.call('SET', KEYS[1], ARGV[1], 'PX', 1000) redis.call('PUBLISH', ARGV[2], ARGV[3]) return 1`

// openFloorHandover returns one that listens on a channel, and whose releases are told on another.
func openFloorHandover(b *bench, channel, next string) (*floorHandover, error) {
	addresses := b.addresses()
	p, err := newPipeline(addresses, majority(len(addresses)))
	if err != nil {
		return nil, err
	}
	f := &floorHandover{pipeline: p, call: p.newCall(), heard: make(chan told, 2*len(addresses)),
		done: make(chan struct{})}
	var sha string
	for i, s := range b.servers {
		sha = fmt.Sprint(s.Do("SCRIPT", "LOAD", floorRelease))
		if err := f.listen(i, addresses[i], channel); err != nil {
			f.close()
			return nil, err
		}
	}
	// As long as fenlock's: a holder and a number, the waiter's number, and a clock.
	holder, number := strings.Repeat("f", 32), "1795223736053373"
	f.release = encode("EVALSHA", sha, "1", floorLease, holder+"#12#"+number+": "+number, next, "12 "+number+" "+number)
	return f, nil
}

// floorChannel returns a channel that no other client has.
func floorChannel() string { return fmt.Sprintf("floor:%08x", rand.Uint32()) }

// encode writes a command as the servers read it.
func encode(words ...string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
	}
	return out
}

// listen subscribes, and returns when that is confirmed.
func (f *floorHandover) listen(server int, address, channel string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	f.conns = append(f.conns, conn)
	if _, err := conn.Write(encode("SUBSCRIBE", channel)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	if err := hear(in, "subscribe", 6); err != nil {
		return err
	}
	f.wait.Go(func() {
		for {
			err := hear(in, "message", 7)
			select {
			case f.heard <- told{server, err}:
			case <-f.done:
				return
			}
			if err != nil {
				return
			}
		}
	})
	return nil
}

// hear reads one message of a kind, which has that many lines. Each client's messages are many
// where it is late: a message may come in two pieces.
func hear(in *bufio.Reader, kind string, lines int) error {
	for i := range lines {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if i == 2 && strings.TrimSpace(string(line)) != kind {
			return fmt.Errorf("%q instead of %s", line, kind)
		}
	}
	return nil
}

// measure returns the time from the release until a majority has told the waiter.
func (f *floorHandover) measure(ctx context.Context, p pause) (took time.Duration, err error) {
	p.sleep()
	released := make(chan error, 1)
	start := time.Now()
	go func() { released <- f.pipeline.do(f.call, f.release) }()
	for i := range f.conns {
		select {
		case t := <-f.heard:
			err = t.err
		case <-ctx.Done():
			err = errors.New("the floor's handover has hung")
		}
		if err != nil {
			return 0, err
		}
		if i+1 == majority(len(f.conns)) {
			took = time.Since(start)
		}
	}
	return took, <-released
}

func (f *floorHandover) close() {
	close(f.done)
	f.pipeline.close()
	for _, conn := range f.conns {
		conn.Close()
	}
	f.wait.Wait()
}
