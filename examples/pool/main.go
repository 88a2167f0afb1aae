// Command pool has eight jobs on eight machines, of which three may run at a time: there are three
// licenses, or three graphics cards.
//
//	go run ./examples/pool
//	go run ./examples/pool -without         # and without slots
//
// Watch the slots: there are never more than three. No two jobs have the same at a time, so that
// the number can be that of the card. In the shell:
//
//	fenlock run --slots 3 encode -- ./encode.sh       # which finds it in FENLOCK_SLOT
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/fenlock/fenlock/examples/internal/stage"
)

const (
	slots = 3
	jobs  = 8
	takes = 400 * time.Millisecond
)

func main() { stage.Main(play, machine) }

func play(ctx context.Context) error {
	if err := os.Mkdir(filepath.Join(stage.Folder, "cards"), 0o700); err != nil {
		return err
	}
	var names []string
	for i := range jobs {
		names = append(names, fmt.Sprint("job ", i+1))
	}
	if err := stage.All(ctx, names); err != nil {
		return err
	}
	if wrong := stage.Lines("wrong"); len(wrong) > 0 {
		return fmt.Errorf("%q", wrong)
	}
	if n := len(stage.Lines("done")); n != jobs {
		return fmt.Errorf("%d of %d jobs are done", n, jobs)
	}
	stage.Say("%d jobs on %d cards, one at a time on each.", jobs, slots)
	return nil
}

// machine does one job, when there is a slot for it.
func machine(ctx context.Context, name string) error {
	locker, err := stage.Locker(name)
	if err != nil {
		return err
	}
	if stage.Without {
		return encode(ctx, name, rand.N(slots))
	}
	pool, err := locker.Slots("examples/pool", slots)
	if err != nil {
		return err
	}
	slot, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer slot.Release(ctx)
	return encode(slot.Context(), name, slot.Number())
}

// encode uses a card, and finds out if another job does.
func encode(ctx context.Context, name string, card int) error {
	folder := filepath.Join(stage.Folder, "cards", fmt.Sprint(card))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return stage.Append("wrong", fmt.Sprintf("%s: card %d is in use", name, card))
	}
	defer os.Remove(folder)
	stage.Say("  %s on card %d", name, card)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(takes):
	}
	stage.Say("  %s on card %d is done", name, card)
	return stage.Append("done", name)
}
