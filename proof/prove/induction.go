package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/internal/proof/solver"
)

// inParallel does n pieces of work, some at a time, and calls tell with each in order.
func (p *prover) inParallel(n int, work func(i int) string, tell func(i int, said string)) {
	said := make([]chan string, n)
	for i := range said {
		said[i] = make(chan string, 1)
	}
	todo := make(chan int)
	var wait sync.WaitGroup
	for range p.workers {
		wait.Go(func() {
			for i := range todo {
				said[i] <- work(i)
			}
		})
	}
	go func() {
		for i := range n {
			todo <- i
		}
		close(todo)
	}()
	for i := range n {
		tell(i, <-said[i])
	}
	wait.Wait()
}

// induction proves that the initial state has every invariant, and that every action keeps them.
func (p *prover) induction(f file) {
	began := time.Now()
	groups := []model.Group{f.Initially()}
	for _, a := range f.Actions {
		groups = append(groups, f.Step(a))
	}
	queries, bad := 0, 0
	p.inParallel(len(groups), func(i int) string {
		return p.unproved(groups[i])
	}, func(i int, said string) {
		queries += len(groups[i].Goals)
		if said != "" {
			bad++
			fmt.Fprintf(p.out, "%s: %s: %s\n", f.name, groups[i].Name, said)
		}
	})
	p.failed = p.failed || bad > 0
	fmt.Fprintf(p.out, "%s: %d actions, %d invariants: %d queries in %.1f s, %s\n", f.name, len(f.Actions),
		len(f.Invariants), queries,
		time.Since(began).Seconds(), proved(bad, "not proved: actions"))
}

func proved(bad int, what string) string {
	if bad == 0 {
		return "all proved"
	}
	return fmt.Sprintf("%s: %d", what, bad)
}

// unproved asks all goals of a group, and returns what is not proved of it.
func (p *prover) unproved(g model.Group) string {
	said := ""
	err := p.ask(g, func(n *model.Named, a solver.Answer) bool {
		if a != solver.Unsat {
			said += fmt.Sprintf(" %s (%s, %s)", n.Name, n.Pos, a)
		}
		return true
	})
	if err != nil {
		return "not proved: " + err.Error()
	}
	if said != "" {
		return "does not keep" + said
	}
	return ""
}

func (p *prover) ask(g model.Group, heard func(n *model.Named, a solver.Answer) bool) error {
	var questions []string
	for _, goal := range g.Goals {
		questions = append(questions, goal.Text)
	}
	return p.solver.Ask(p.ctx, g.Given, questions, p.limits,
		func(i int, a solver.Answer) bool { return heard(g.Goals[i].Invariant, a) })
}
