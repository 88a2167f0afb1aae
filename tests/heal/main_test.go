//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// The rule itself, on real servers: once two of three have forgotten a lock, it is held
// by what was created again since, while other names move its register.
func TestLocksHeal(t *testing.T) {
	r := row{nodes: 3, traffic: 100, waiters: 1, fault: func(s *scene) error {
		return errors.Join(s.restart(0), s.restart(1))
	}}
	// The TTL is far longer than a busy machine stands still.
	s := setting{kind: testserver.Kinds(t)[0], locks: 2, ttl: 4 * time.Second, peace: 2 * time.Second}
	result, err := r.run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.problems) > 0 {
		t.Fatal(result.problems)
	}
	if result.acquired == 0 {
		t.Error("no other name was acquired")
	}
	if len(result.losses) > 0 {
		t.Errorf("%d of %d locks were lost: %q", len(result.losses), s.locks, explain(result.losses))
	}
}

// What is lost is printed with its reason, and is the program's exit status.
func TestLossesAreReported(t *testing.T) {
	r := row{number: 7, what: "all servers stopped", nodes: 3, fault: func(s *scene) error {
		for i := range s.servers {
			s.servers[i].Pause()
		}
		defer func() {
			for i := range s.servers {
				s.servers[i].Resume()
			}
		}()
		return s.wait("all stopped", s.ttl*3/2)
	}}
	var out bytes.Buffer
	s := setting{kind: testserver.Kinds(t)[0], locks: 2, ttl: time.Second}
	err := table(t.Context(), s, []row{r}, 1, &out)
	text := out.String()
	if !errors.Is(err, errLost) || !strings.Contains(text, "2 of 2") ||
		!strings.Contains(text, "all stopped: "+fenlock.ErrLost.Error()) {
		t.Errorf("%v\n%s", err, text)
	}
}

// The traffic moves the registers of the locks that are held, all of them alike.
func TestNeighbours(t *testing.T) {
	held := newHeld(40)
	shared, names := map[int]int{}, map[string]bool{}
	for _, name := range neighbours(held.names, 3) {
		shared[node.Stripe(name)]++
		names[name] = true
	}
	if len(names) != 120 {
		t.Errorf("%d names, want 120", len(names))
	}
	stripes := map[int]int{}
	for _, name := range held.names {
		stripes[node.Stripe(name)] += 3
		if names[name] {
			t.Errorf("%s is held itself", name)
		}
	}
	if fmt.Sprint(shared) != fmt.Sprint(stripes) {
		t.Errorf("names by stripe: %v, want %v", shared, stripes)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-rows", "0"}, {"-rows", "1,,2"}, {"-rows", "99"}, {"-locks", "0"}, {"-times", "0"}, {"-peace", "-1s"}, {"rows"}, {"-kind", "memcached", "-rows", "1"},
	} {
		if err := run(context.Background(), args, &bytes.Buffer{}); err == nil || errors.Is(err, errLost) {
			t.Errorf("%q: %v", args, err)
		}
	}
	all, err := choose("")
	if err != nil || len(all) != len(rows) {
		t.Errorf("%d rows of %d, %v", len(all), len(rows), err)
	}
	for i, r := range rows {
		if r.number != i+1 || r.fault == nil {
			t.Errorf("row %d: %+v", i+1, r)
		}
	}
}
