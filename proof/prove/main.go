// Prove proves the models of package proof, for any number of nodes, holders and numbers. It shows
// that they are not empty and that each broken rule is refuted. See proof/README.md.
//
//	go run ./proof/prove [-audit] [-v] [-solver z3] [-dir FOLDER] [MODEL...]
//
// Its exit status is 0 only if everything is proved. An answer "unknown", a timeout, a solver that
// is missing or ends, and an error in a model are failures.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/internal/proof/solver"
	"github.com/fenlock/fenlock/proof"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is the program. It returns the exit status: 1 where something is not proved, 2 where
// nothing could be asked.
func command(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	flags.SetOutput(errs)
	audit := flags.Bool("audit", false,
		"remove each conjunct of each guard in turn, and tell which removals leave everything proved")
	verbose := flags.Bool("v", false, "tell each run, and each broken rule")
	name := flags.String("solver", "z3", "the solver, z3 or cvc5")
	dir := flags.String("dir", "", "the folder with the models, instead of those of this program")
	each := flags.Duration("timeout", time.Minute, "for one query")
	workers := flags.Int("workers", 2, "solvers at a time")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var files fs.FS = proof.Files
	if *dir != "" {
		files = os.DirFS(*dir)
	}
	found, err := load(files, flags.Args())
	if err != nil {
		fmt.Fprintln(errs, err)
		return 2
	}
	s, err := solver.Find(ctx, *name)
	if err != nil {
		fmt.Fprintln(errs, "nothing is proved:", err)
		return 2
	}
	p := &prover{ctx: ctx, out: out, solver: s, limits: solver.Limits{Each: *each, All: 10 * *each}, workers: *workers,
		verbose: *verbose}
	for _, f := range found {
		if *audit {
			p.audit(f)
			continue
		}
		p.induction(f)
		if s.Z3() {
			p.runs(f)
		}
	}
	if p.failed {
		fmt.Fprintln(out, "NOT PROVED")
		return 1
	}
	if !s.Z3() {
		fmt.Fprintln(out, "no runs, and no broken rules: z3 finds them")
	}
	fmt.Fprintf(out, "all is proved, by %s\n", s.Version)
	return 0
}

// load reads the models with these names, or all.
func load(files fs.FS, names []string) ([]file, error) {
	paths, err := fs.Glob(files, "*.model")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.Contains(paths, name+".model") {
			return nil, fmt.Errorf("there is no model %s", name)
		}
	}
	var all []file
	for _, path := range paths {
		f := file{name: strings.TrimSuffix(path, ".model")}
		if len(names) > 0 && !slices.Contains(names, f.name) {
			continue
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		if f.Model, err = model.Parse(path, string(text)); err != nil {
			return nil, err
		}
		if err := f.Fragment(); err != nil {
			return nil, err
		}
		path = f.name + ".runs"
		if text, err = fs.ReadFile(files, path); err != nil {
			return nil, fmt.Errorf("%s has no runs: nothing would show that it is not empty: %w", f.name, err)
		}
		if f.runs, err = f.Runs(path, string(text)); err != nil {
			return nil, err
		}
		if err := f.occur(path); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no models")
	}
	return all, nil
}

// occur returns an error unless each action is in a run of the model, and each promise is broken by
// a broken rule. An action that can never be taken keeps every promise. A promise that nothing
// breaks may say nothing.
func (f file) occur(path string) error {
	missing, unbroken := map[string]bool{}, map[string]bool{}
	for _, a := range f.Actions {
		missing[a.Name] = true
	}
	for _, n := range f.Invariants {
		unbroken[n.Name] = n.Promise
	}
	for _, r := range f.runs {
		if r.Broken {
			delete(unbroken, r.Breaks.Name)
		}
		for _, s := range r.Steps {
			if !r.Broken {
				delete(missing, s.Action.Name)
			}
		}
	}
	for _, n := range f.Invariants {
		if unbroken[n.Name] {
			return &model.Error{Pos: n.Pos,
				Msg: fmt.Sprintf("no broken rule in %s breaks the promise %s: nothing shows that it says something", path, n.Name)}
		}
	}
	for _, a := range f.Actions {
		if missing[a.Name] {
			return &model.Error{Pos: a.Pos,
				Msg: fmt.Sprintf("no run in %s has the action %s: nothing shows that it can be taken", path, a.Name)}
		}
	}
	return nil
}
