package core

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/rule"
)

const second = rule.ReservationTTL

// told has a waiter that three nodes know, since they refused it at 10 s, hear at 20 s what some of
// them gave then.
func told(number ...uint64) *Given {
	g := new(Given)
	for i := range 3 {
		g.Refused(i, 10*second, 1000*second, 0, 0)
	}
	for i, n := range number {
		if n != 0 {
			g.Told(i, fence.Token(n), 1010*second, 20*second)
		}
	}
	return g
}

// A release of what was given can be carried out late. A waiter that took that number after all
// would lose the lease that it has there, and not hear of it.
func TestGivenBackIsNotTaken(t *testing.T) {
	g := told(7)
	if n := g.Back(0); n != 7 {
		t.Fatalf("gives back %d", n)
	}
	if n := g.Back(0); n != 0 {
		t.Errorf("gives %d back twice", n)
	}
	for i := range 3 {
		g.Told(i, 7, 1010*second, 20*second)
	}
	if number, _, ok := g.Best(3, 20*second); ok {
		t.Errorf("takes %d, which is being given back to a node", number)
	}
	for i := range 2 {
		g.Told(i, 8, 1010*second, 20*second)
	}
	number, _, ok := g.Best(3, 20*second)
	if !ok || number != 8 {
		t.Fatalf("the next number: %d, %v", number, ok)
	}
	g.Take(8)
	if a, b := g.Back(1), g.Back(2); a != 0 || b != 7 {
		t.Errorf("gives back %d, what it has taken, and %d", a, b)
	}
}

func TestGivenTenure(t *testing.T) {
	start := 20 * second
	for _, c := range []struct {
		ttl, hold, until, want time.Duration
	}{
		{10 * second, 0, start + 900*time.Millisecond, start + 900*time.Millisecond},
		{100 * time.Millisecond, 0, start + 900*time.Millisecond, Validity(start, 100*time.Millisecond)},
		{10 * second, 200 * time.Millisecond, start + 900*time.Millisecond, start + 200*time.Millisecond},
	} {
		a := NewGiven(Params{Nodes: 3, TTL: c.ttl, MaxHold: c.hold, Start: start}, 7, c.until)
		if a.Phase() != Holding || a.Token() != 7 || a.Until() != c.want {
			t.Errorf("%+v: phase %v, token %d, until %v", c, a.Phase(), a.Token(), a.Until())
		}
		if due, ok := a.ExtendDue(); c.hold == 0 && (!ok || due <= start || due > start+second/16) {
			t.Errorf("%+v: extends at %v, %v", c, due, ok)
		}
		if r := a.StartRelease(start); r.To != allOf(3) {
			t.Errorf("%+v: releases to %v: any node may have given it", c, r.To)
		}
	}
}

// The first extension can be lost as any other can: there is time for more of them, however long
// the TTL is.
func TestGivenExtendsAgain(t *testing.T) {
	for _, answers := range []bool{true, false} {
		start := 20 * second
		a := NewGiven(Params{Nodes: 3, TTL: 30 * second, Start: start}, 7, start+900*time.Millisecond)
		rounds := 0
		for {
			due, ok := a.ExtendDue()
			if !ok || due >= a.Until() {
				break
			}
			rounds++
			action := a.StartExtend(due)
			for i := 0; answers && i < 3; i++ {
				a.OnExtend(i, action.Round, 0, Reply{}, due+5*time.Millisecond)
			}
		}
		if rounds < 3 || rounds > 20 {
			t.Errorf("nodes answer with errors %v: %d extensions within what was given", answers, rounds)
		}
	}
	a := NewGiven(Params{Nodes: 3, TTL: 30 * second, Start: 0}, 7, second)
	action := a.StartExtend(0)
	for i := range 2 {
		a.OnExtend(i, action.Round, 0, Reply{Status: Granted, Register: 7}, 0)
	}
	a.StartExtend(10 * second)
	if due, _ := a.ExtendDue(); due != 10*second+30*second/4 {
		t.Errorf("once it was extended, it goes on at %v", due)
	}
}
