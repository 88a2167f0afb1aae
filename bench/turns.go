package main

import (
	"context"
	"fmt"
)

// turns are the contenders of a figure, who are measured alternately.
type turns struct {
	names   []string
	clients [][]client      // of each
	gaveUp  map[string]bool // hung, and is left out from then on
}

// takeTurns opens n clients of each. The caller closes them.
func (b *bench) takeTurns(ctx context.Context, who []contender, n int) (*turns, error) {
	t := &turns{gaveUp: map[string]bool{}}
	for _, c := range who {
		opened, err := openAll(ctx, b, c, n)
		if err != nil {
			t.close()
			return nil, err
		}
		t.names, t.clients = append(t.names, c.name), append(t.clients, opened)
	}
	return t, nil
}

func (t *turns) close() {
	for _, clients := range t.clients {
		closeAll(clients)
	}
}

// first is who begins a round.
func (t *turns) first(round int) int { return round % len(t.names) }

// each has all measured in each round, by the number in names. None is always first; one that
// returns errGaveUp is left out from then on.
func (t *turns) each(rounds int, measure func(round, i int) error) error {
	for round := range rounds {
		for k := range t.names {
			i := (t.first(round) + k) % len(t.names)
			if t.gaveUp[t.names[i]] {
				continue
			}
			err := measure(round, i)
			if err == errGaveUp {
				t.gaveUp[t.names[i]] = true
			} else if err != nil {
				return fmt.Errorf("%s: %w", t.names[i], err)
			}
		}
	}
	return nil
}
