//go:build unix

package main

import "time"

// row is a line of the table. The zero values stand for five nodes, and for nobody else.
type row struct {
	number  int
	what    string
	nodes   int
	traffic int  // acquisitions a second of other names, on the same stripes
	waiters int  // in the queue of each lock
	tries   bool // somebody tries to get each lock, once in a TTL
	slow    bool // requests can be slowed down
	far     bool // server 2 is far away

	// before makes something wrong while the locks are acquired, and returns what ends it.
	before func(*scene) (after func() error, err error)
	fault  func(*scene) error
}

const restarted = "servers restarted one after the other, "

// rows is the table. The first seven are what was measured before a lock healed.
var rows = []row{
	{number: 1, what: restarted + "no other traffic", fault: restartEach},
	{number: 2, what: restarted + "500 acquisitions/s of other names", traffic: 500, fault: restartEach},
	{number: 3, what: restarted + "a waiter in the queue of each lock", waiters: 1, fault: restartEach},
	{number: 4, what: restarted + "somebody trying for each lock, once in a TTL", tries: true, fault: restartEach},
	{number: 5, what: "servers stopped for 1.2 TTLs, one after the other, 300/s", traffic: 300, fault: stopEach},
	{number: 6, what: "two servers down at the acquisition, back since, then one other stops, 300/s", traffic: 300,
		before: twoDown, fault: stopAnother},
	{number: 7, what: "two servers slow (1 s) at the acquisition, 4 TTLs later one other stops, 300/s", traffic: 300, slow: true,
		before: twoSlow, fault: stopAnotherLater},
	{number: 8, what: restarted + "5,000/s", traffic: 5000, fault: restartEach},
	{number: 9, what: restarted + "500/s", nodes: 7, traffic: 500, fault: restartEach},
	{number: 10, what: restarted + "ten waiters in the queue of each lock", waiters: 10, fault: restartEach},
	{number: 11, what: restarted + "a waiter for each lock, and 500/s", nodes: 3, traffic: 500, waiters: 1, fault: restartEach},
	{number: 12, what: "two servers restarted at a time, one of them 20 ms away, 500/s", traffic: 500, far: true, fault: restartPairs},
	{number: 13, what: "servers stopped for 1.2 TTLs, one after the other, a waiter for each lock, and 300/s", nodes: 3, traffic: 300, waiters: 1, fault: stopEach},
	{number: 14, what: "two servers stopped at a time, two waiters and somebody trying for each lock", waiters: 2, tries: true, fault: stopPairs},
}

func (r row) size() int {
	if r.nodes == 0 {
		return 5
	}
	return r.nodes
}

// restartEach is a rolling restart.
func restartEach(s *scene) error {
	for i := range s.servers {
		if err := s.restart(i); err != nil {
			return err
		}
	}
	return nil
}

// restartPairs restarts as many at a time as a majority can do without.
func restartPairs(s *scene) error { return s.pairs(s.restart) }

// stopPairs is the same with servers that keep their memory, and what lies in their sockets.
func stopPairs(s *scene) error {
	return s.pairs(func(which ...int) error { return s.stop(s.ttl*6/5, which...) })
}

func (s *scene) pairs(fault func(which ...int) error) error {
	n, some := len(s.servers), (len(s.servers)-1)/2
	for from := 0; from < n; from += some {
		var which []int
		for i := from; i < from+some; i++ {
			which = append(which, i%n)
		}
		if err := fault(which...); err != nil {
			return err
		}
	}
	return nil
}

// stopEach stops each server for longer than its leases last.
func stopEach(s *scene) error {
	for i := range s.servers {
		if err := s.stop(s.ttl*6/5, i); err != nil {
			return err
		}
	}
	return nil
}

// another is a server that answered the acquire where two did not. It is stopped for
// so long that what the others have must be enough.
func stopAnother(s *scene) error { return s.stop(2*s.ttl, 2) }

func stopAnotherLater(s *scene) error {
	if err := s.wait("after the acquisition", 4*s.ttl); err != nil {
		return err
	}
	return stopAnother(s)
}

func twoDown(s *scene) (after func() error, err error) {
	s.phase("servers 1 and 2 are down")
	for i := range 2 {
		if err := s.kill(i); err != nil {
			return nil, err
		}
	}
	return func() error { return s.comeBack(0, 1) }, nil
}

func twoSlow(s *scene) (after func() error, err error) {
	s.phase("servers 1 and 2 are slow")
	var lifts []func()
	for i := range 2 {
		lifts = append(lifts, s.slow(i, time.Second))
	}
	return func() error {
		for _, lift := range lifts {
			lift()
		}
		return s.wait("servers 1 and 2 are no longer slow", s.peace)
	}, nil
}
