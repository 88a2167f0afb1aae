//go:build unix

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node/valkeynode"
)

const (
	pollInterval = 20 * time.Millisecond
	farAway      = 20 * time.Millisecond
	patience     = time.Minute // for what has to happen, however busy the machine is
)

// start starts the servers.
func (s *scene) start(n int) error {
	return testserver.Try(func() error {
		s.servers = testserver.Group(s.outside, s.kind, n)
		if !s.row.slow && !s.row.far {
			return nil
		}
		for i, server := range s.servers {
			p := proxy.New(server.Addr(), nil)
			s.outside.Cleanup(p.Close)
			s.proxies = append(s.proxies, p)
			if s.row.far && i == 1 {
				s.slow(i, farAway)
			}
		}
		return nil
	})
}

// locker returns a client with connections of its own, which the row's end closes. What
// the nodes answer is remembered under a name, unless that is empty.
func (s *scene) locker(by string) (*fenlock.Locker, error) {
	config := fenlock.Config{TTL: s.ttl, MaxTTL: s.ttl, MaxHold: -1}
	if s.ttl < 4*time.Second {
		config.NodeTimeout = s.ttl / 8 // the default is too short for a busy machine
	}
	for i, server := range s.servers {
		address := server.Addr()
		if s.proxies != nil {
			address = s.proxies[i].Addr(0)
		}
		node, err := valkeynode.Open(string(s.kind) + "://" + address)
		if err != nil {
			return nil, err
		}
		if by == "" {
			config.Nodes = append(config.Nodes, node)
		} else {
			config.Nodes = append(config.Nodes, s.held.trace.around(node, i, by))
		}
	}
	l, err := fenlock.New(config)
	if err == nil {
		s.outside.Cleanup(func() { l.Close() })
	}
	return l, err
}

// kill ends a server as a crash does.
func (s *scene) kill(i int) error {
	return testserver.Try(func() error { s.servers[i].Kill(); return nil })
}

// restart kills servers and starts them again at once, and returns after the peace.
func (s *scene) restart(which ...int) error {
	s.phase(serversText(which) + " restarted")
	for _, i := range which {
		if err := s.kill(i); err != nil {
			return err
		}
	}
	return s.comeBack(which...)
}

// comeBack starts servers, and returns when they have voted for half a TTL.
func (s *scene) comeBack(which ...int) error {
	for _, i := range which {
		if err := testserver.Try(func() error { s.servers[i].Restart(); return nil }); err != nil {
			return err
		}
	}
	if err := s.awaitAdmitted(which...); err != nil {
		return err
	}
	return s.wait(serversText(which)+" voting again", s.peace)
}

// stop stops a server without ending it (SIGSTOP), and returns after the peace.
func (s *scene) stop(length time.Duration, which ...int) error {
	each := func(do func(i int)) error {
		return testserver.Try(func() error {
			for _, i := range which {
				do(i)
			}
			return nil
		})
	}
	err := each(func(i int) { s.servers[i].Pause() })
	if err == nil {
		err = s.wait(serversText(which)+" stopped", length)
	}
	if resumed := each(func(i int) { s.servers[i].Resume() }); resumed != nil {
		return resumed
	}
	if err != nil {
		return err
	}
	return s.wait(serversText(which)+" going on", s.peace)
}

// slow makes all requests to a server late, until lift is called.
func (s *scene) slow(i int, delay time.Duration) (lift func()) {
	return s.proxies[i].Impose(proxy.Rule{To: proxy.Effect{Delay: delay}})
}

// awaitAdmitted waits until the servers vote. It is the clients that admit them, so
// somebody has to use a lock meanwhile.
func (s *scene) awaitAdmitted(which ...int) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl+patience)
	defer cancel()
	for _, i := range which {
		for !s.servers[i].IsAdmitted(valkeynode.DefaultPrefix) {
			if err := sleep(ctx, pollInterval); err != nil {
				return fmt.Errorf("server %d does not vote: %w", i+1, err)
			}
		}
	}
	return nil
}

// serversText returns "server 3", or "servers 3 and 4".
func serversText(which []int) string {
	words := make([]string, len(which))
	for k, i := range which {
		words[k] = strconv.Itoa(i + 1)
	}
	if len(words) == 1 {
		return "server " + words[0]
	}
	return "servers " + strings.Join(words, " and ")
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
