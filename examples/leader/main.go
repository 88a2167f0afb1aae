// Command leader has a leader and a standby, and others who want to know who leads.
//
//	go run ./examples/leader
//	go run ./examples/leader -without       # and without a lock
//
// Watch what the others see when the leader is killed. It leads until its lease has run out, then
// the standby does, with a larger term. The ledger has what each of them did while it led: nothing
// of an older term is after something of a newer one. For a program that knows nothing of locks it
// is
//
//	fenlock run --lead scheduler -- ./scheduler
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/examples/internal/stage"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
)

const name = "examples/leader"

func main() { stage.Main(play, machine) }

func play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills who is left
	others, err := stage.Locker("others")
	if err != nil {
		return err
	}
	defer others.Close()
	seen := make(chan leader.Leader, 100)
	go follow(ctx, others, seen)

	first, err := stage.Start(ctx, "candidate 1")
	if err != nil {
		return err
	}
	if err := first.Hear("leads"); err != nil {
		return err
	}
	one, err := leads(ctx, seen, "candidate 1")
	if err != nil {
		return err
	}
	second, err := stage.Start(ctx, "candidate 2")
	if err != nil {
		return err
	}
	if err := second.Hear("stands by"); err != nil {
		return err
	}
	time.Sleep(stage.TTL / 2) // nothing happens
	stage.Say("candidate 1 is killed")
	first.Process.Kill()
	first.Wait()
	if err := second.Hear("leads"); err != nil {
		return err
	}
	two, err := leads(ctx, seen, "candidate 2")
	if err != nil {
		return err
	}
	if !stage.Without && two.Term <= one.Term {
		return fmt.Errorf("the term %d follows the term %d", two.Term, one.Term)
	}
	time.Sleep(stage.TTL / 4)
	return check(stage.Lines("ledger"))
}

// check looks whether two processes led at a time.
func check(ledger []string) error {
	over := map[string]bool{}
	for i, who := range ledger {
		if over[who] {
			return fmt.Errorf("%s led again, after another one had: line %d", who, i+1)
		}
		if i > 0 && ledger[i-1] != who {
			over[ledger[i-1]] = true
		}
	}
	if len(over) != 1 {
		return errors.New("there were not two leaders, one after the other")
	}
	stage.Say("One led after the other: the ledger has %d lines, in the order of the terms.", len(ledger))
	return nil
}

// follow tells who leads, whenever that changes.
func follow(ctx context.Context, others *fenlock.Locker, seen chan<- leader.Leader) {
	for leader, err := range leader.Follow(ctx, admin.Of(others), name) {
		switch {
		case err != nil:
			stage.Say("    others: it cannot be told: %v", err)
		case leader.Term == 0:
			stage.Say("    others: no leader")
		default:
			stage.Say("    others: %s leads", leader.Label)
		}
		seen <- leader
	}
}

// leads waits until the others see a leader.
func leads(ctx context.Context, seen <-chan leader.Leader, label string) (leader.Leader, error) {
	for !stage.Without {
		select {
		case leader := <-seen:
			if leader.Label == label {
				return leader, nil
			}
		case <-ctx.Done():
			return leader.Leader{}, context.Cause(ctx)
		}
	}
	return leader.Leader{}, nil
}

// machine is a candidate.
func machine(ctx context.Context, label string) error {
	work := func(ctx context.Context, _ fence.Token) error {
		stage.Say("%s leads", label)
		for ctx.Err() == nil { // it ends before another one can lead
			if err := stage.Append("ledger", label); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	locker, err := stage.Locker(label)
	if err != nil {
		return err
	}
	stage.Say("%s stands by", label)
	if stage.Without {
		return work(ctx, 0)
	}
	return leader.Lead(ctx, locker, name, work)
}
