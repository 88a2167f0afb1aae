package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/proof"
)

// A model of locks at one node: tokens grow, because each grant is past the register.
const (
	small = `(sort node n m)
(sort holder A B)
(sort number r s)
(order le number zero)
(rel leased node holder)
(rel granted node holder number)
(cut register reached passed node number)
(init (not (leased n A)) (not (granted n A r)) (= (reached n r) (= r zero)) (not (passed n r)))
(action acquire (n A r)
  (if (not (leased n A)) (not (reached n r)))
  (add (leased n A)) (add (granted n A r)) (put (register n) r))
(action release (n A) (if (leased n A)) (del (leased n A)))
(promise unique (=> (and (granted n A r) (granted n B r)) (= A B)))
(lemma past (=> (granted n A r) (reached n r)))
(lemma shape (=> (passed n r) (reached n r)))
(lemma below (=> (and (reached n r) (not (le r s))) (passed n s)))
`
	smallRuns = `(sizes (node 1) (holder 2) (number 3))
(run "two" (steps (acquire n1 A 1) (release n1 A) (acquire n1 B _)) (reach (granted n1 B 2)))
(broken "the register stays" (replace acquire (not (reached n r)) (not (passed n r)))
  (steps (acquire n1 A 1) (release n1 A) (acquire n1 B _)) (breaks unique))
`
)

// prove runs the program on a model with its runs, in a folder of its own.
func prove(t *testing.T, model, runs string, args ...string) (status int, said string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"small.model": model, "small.runs": runs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	status = command(t.Context(), append([]string{"-dir", dir}, args...), &out, &out)
	return status, out.String()
}

// fake is a solver that answers every question in the same way.
func fake(t *testing.T, version, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "z3")
	text := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = --version ]; then echo '%s'; exit; fi\n%s\n", version, script)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

const z3 = "Z3 version 4.8.12 - 64 bit"

func TestProved(t *testing.T) {
	status, said := prove(t, small, smallRuns, "-v")
	if status != 0 || !strings.Contains(said, "2 actions, 4 invariants: ") || !strings.Contains(said, "all proved") ||
		!strings.Contains(said, "1 runs, 1 broken rules refuted twice") ||
		!strings.Contains(said, "acquire n1 B 1 => not unique") ||
		!strings.HasSuffix(said, "all is proved, by "+z3[:strings.Index(z3, " -")]+"\n") {
		t.Errorf("status %d: %s", status, said)
	}
}

// What is wrong is not proved, and said with its place.
func TestNotProved(t *testing.T) {
	for _, x := range []struct {
		name, old, new string // in the model
		run, by        string // in the runs
		status         int
		says           string
	}{
		{name: "a wrong invariant", old: "(lemma past", new: "(lemma wrong (not (leased n A)))\n(lemma past", status: 1,
			says: "small: acquire: does not keep wrong (small.model:14, sat)"},
		{name: "a wrong invariant of the initial state", old: "(lemma past",
			new: "(lemma wrong (granted n A zero))\n(lemma past", status: 1, says: "small: init: does not keep wrong"},
		{name: "an invariant that is true and not inductive", old: "(lemma past (=> (granted n A r) (reached n r)))\n",
			status: 1, says: "does not keep unique"},
		{name: "a register that a grant leaves as it is", old: " (put (register n) r)", new: " (raise (register n) zero)",
			status: 1, says: "acquire: does not keep"},
		{name: "a typing error", old: "(if (leased n A))", new: "(if (leased A n))", status: 2,
			says: "small.model:12: A is of the sort holder"},
		{name: "a query outside of the fragment", old: "(lemma past",
			new: "(lemma each (exists (n) (leased n A)))\n(lemma other (exists (A) (leased n A)))\n(lemma past", status: 2,
			says: "small.model:15: not in the decidable fragment"},
		{name: "an action that can never be taken", old: "(if (leased n A))", new: "(if (leased n A) false)", status: 1,
			says: "small.runs:2: two: no run: unsat"},
		{name: "an action in no run", run: " (release n1 A) (acquire n1 B _)) (reach (granted n1 B 2))", by: ") (reach true)",
			status: 2, says: "small.model:12: no run in small.runs has the action release"},
		{name: "a promise that nothing breaks", old: "(lemma past", new: "(promise past", status: 2,
			says: "small.model:14: no broken rule in small.runs breaks the promise past"},
		{name: "a run that is not there", run: "(granted n1 B 2)", by: "(granted n1 A 2)", status: 1,
			says: "small.runs:2: two: no run: unsat"},
		{name: "a rule that is not broken", run: "(not (passed n r))", by: "(not (reached n r)) (not (passed n r))",
			status: 1, says: "small.runs:3: the register stays: no run: unsat"},
		{name: "a rule that breaks something else",
			run: "(broken \"the register stays\" (replace acquire (not (reached n r)) (not (passed n r)))",
			by:  "(broken \"twice\" (replace acquire (not (leased n A)))", status: 1, says: "twice: no run: unsat"},
	} {
		t.Run(x.name, func(t *testing.T) {
			model, runs := strings.Replace(small, x.old, x.new, 1), strings.Replace(smallRuns, x.run, x.by, 1)
			if model == small && runs == smallRuns {
				t.Fatal("nothing was changed")
			}
			status, said := prove(t, model, runs)
			if status != x.status || !strings.Contains(said, x.says) || strings.Contains(said, "all is proved, by") {
				t.Errorf("status %d: %s\nwant %d and %q", status, said, x.status, x.says)
			}
		})
	}
}

// A rule is refuted only if its proof fails too: a run that uses what the instance alone allows
// shows nothing.
func TestBrokenRuleThatIsProved(t *testing.T) {
	// The promise is broken from the beginning, in the runs of this model only.
	model := strings.Replace(small, "(promise unique", "(promise few (not (granted n A r)))\n(lemma unique", 1)
	runs := strings.NewReplacer("(replace acquire (not (reached n r)) (not (passed n r)))",
		"(action idle (n A) (if) (del (leased n A) false))", "(breaks unique)", "(breaks few)").Replace(smallRuns)
	status, said := prove(t, model, runs)
	if status != 1 || !strings.Contains(said, "the register stays: not refuted by induction: every invariant is kept") {
		t.Errorf("status %d: %s", status, said)
	}
}

// A solver that does not answer plainly has proved nothing.
func TestSolverThatDoesNotAnswer(t *testing.T) {
	for _, x := range []struct {
		name, version, script string
		status                int
		says                  string
	}{
		{"unknown", z3, "grep -c check-sat >/dev/null; for i in 1 2 3 4; do echo unknown; done", 1,
			"(small.model:13, unknown)"},
		{"a timeout", z3, "grep -c check-sat >/dev/null; for i in 1 2 3 4; do echo timeout; done", 1, `answers "timeout"`},
		{"a crash at once", z3, "exit 139", 1, "not proved"},
		{"a crash after an answer", z3, "echo unsat; exit 139", 1, "not proved"},
		{"an end after an answer", z3, "echo unsat; cat >/dev/null", 1, "ended after 1 answers of 4"},
		{"an answer too many", z3, "cat >/dev/null; for i in 1 2 3 4 5 6 7 8 9; do echo unsat; done", 1,
			"gives more than 4 answers"},
		{"an error among the answers", z3, `echo '(error "line 1: unknown constant")'; cat >/dev/null`, 1, `answers "(error`},
		{"nothing", z3, "cat >/dev/null", 1, "ended after 0 answers of 4"},
		{"proves also what is refuted", z3, `n=$(grep -c check-sat); while [ $n -gt 0 ]; do echo unsat; n=$((n-1)); done`, 1,
			"no run: unsat"},
		{"too old", "Z3 version 4.4.1", "echo unsat", 2, "at least 4.8 is needed"},
		{"of an unknown version", "Yices 2.6.2", "echo unsat", 2, "is no version of z3 or cvc5"},
		{"hangs", z3, "exec sleep 60", 1, "did not end"},
	} {
		t.Run(x.name, func(t *testing.T) {
			status, said := prove(t, small, smallRuns, "-solver", fake(t, x.version, x.script), "-timeout", "100ms")
			if status != x.status || !strings.Contains(said, x.says) || strings.Contains(said, "all is proved, by") {
				t.Errorf("status %d: %s\nwant %d and %q", status, said, x.status, x.says)
			}
		})
	}
	t.Run("is missing", func(t *testing.T) {
		status, said := prove(t, small, smallRuns, "-solver", filepath.Join(t.TempDir(), "z3"))
		if status != 2 || !strings.Contains(said, "is not installed: apt-get install z3") ||
			strings.Contains(said, "all is proved, by") {
			t.Errorf("status %d: %s", status, said)
		}
	})
}

func TestAudit(t *testing.T) {
	status, said := prove(t, small, smallRuns, "-audit", "-v")
	if status != 1 || !strings.Contains(said,
		"small.model:10: acquire, (not (leased n A)): everything is proved without it") ||
		!strings.Contains(said, "small.model:10: acquire, (not (reached n r)): needed for") ||
		!strings.Contains(said, "3 conjuncts removed in turn") {
		t.Errorf("status %d: %s", status, said)
	}
	model := strings.NewReplacer("(if (not (leased n A))", `(if (also "it waits" (not (leased n A)))`, "(if (leased n A))",
		"(if)").Replace(small)
	if status, said = prove(t, model, smallRuns, "-audit"); status != 0 ||
		!strings.Contains(said, "needless, and stays: it waits") {
		t.Errorf("status %d: %s", status, said)
	}
	model = strings.Replace(model, "(not (reached n r)))", `(also "it need not" (not (reached n r))))`, 1)
	if status, said = prove(t, model, smallRuns, "-audit"); status != 1 ||
		!strings.Contains(said, "said to be needless, but needed for") {
		t.Errorf("status %d: %s", status, said)
	}
}

// The models of this tree are read, and are in the decidable fragment. make proof proves them.
func TestModelsAreDecidable(t *testing.T) {
	found, err := load(proof.Files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if len(f.runs) == 0 || len(f.Invariants) == 0 {
			t.Errorf("%s: %d runs, %d invariants", f.name, len(f.runs), len(f.Invariants))
		}
	}
}
