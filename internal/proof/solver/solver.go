// Package solver asks an SMT solver, a program of the distribution, and believes nothing but a
// plain "sat" or "unsat".
package solver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Answer is what the solver says of one question.
type Answer string

// The answers. Unknown is also what ran out of time.
const (
	Sat     Answer = "sat"
	Unsat   Answer = "unsat"
	Unknown Answer = "unknown"
)

// Solver is a solver that can be started. It is safe for concurrent use.
type Solver struct {
	path    string
	args    []string
	Version string
}

// The oldest versions that these proofs were tried with.
var oldest = map[string][2]int{"z3": {4, 8}, "cvc5": {1, 0}}

var versions = regexp.MustCompile(`\b(?i:(z3|cvc5)) version ([0-9]+)\.([0-9]+)[0-9.a-z-]*`)

// Find returns the solver with a path, "z3" or "cvc5" usually. An error says what is missing.
func Find(ctx context.Context, name string) (*Solver, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed: apt-get install z3 (%w)", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w: %s", path, err, firstLine(string(out)))
	}
	found := versions.FindStringSubmatch(string(out))
	if found == nil {
		return nil, fmt.Errorf("%s --version says %q, which is no version of z3 or cvc5", path, firstLine(string(out)))
	}
	kind := strings.ToLower(found[1])
	major, _ := strconv.Atoi(found[2])
	minor, _ := strconv.Atoi(found[3])
	if want := oldest[kind]; major < want[0] || major == want[0] && minor < want[1] {
		return nil, fmt.Errorf("%s is %s: at least %d.%d is needed", path, found[0], want[0], want[1])
	}
	s := &Solver{path: path, args: []string{"-in", "-smt2"}, Version: found[0]}
	if kind == "cvc5" {
		s.args = []string{"--incremental", "--lang=smt2", "--finite-model-find"}
	}
	return s, nil
}

// Z3 reports whether the solver is z3. Another one is a second opinion on what is proved: it may
// not find the models of what is not.
func (s *Solver) Z3() bool { return strings.HasPrefix(strings.ToLower(s.Version), "z3") }

// Limits bounds a call.
type Limits struct {
	Each time.Duration // for one question; what takes longer is unknown
	All  time.Duration // for the process; an error after that
}

// Ask asks several questions that have something in common, in one process. It gives each answer to
// heard, in the order of the questions; false ends the process. A question without an answer is an
// error.
func (s *Solver) Ask(ctx context.Context, given string, questions []string, limits Limits,
	heard func(i int, a Answer) bool) error {
	var b strings.Builder
	s.head(&b, limits)
	b.WriteString(given)
	for _, q := range questions {
		fmt.Fprintf(&b, "(push 1)\n%s\n(check-sat)\n(pop 1)\n", q)
	}
	i := 0
	err := s.lines(ctx, b.String(), limits.All, func(line string) (bool, error) {
		a := Answer(line)
		if a != Sat && a != Unsat && a != Unknown {
			return false, fmt.Errorf("%s answers %q", s.path, line)
		}
		if i == len(questions) {
			return false, fmt.Errorf("%s gives more than %d answers", s.path, len(questions))
		}
		i++
		return heard(i-1, a), nil
	})
	if err == nil && i < len(questions) {
		err = fmt.Errorf("%s ended after %d answers of %d", s.path, i, len(questions))
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (s *Solver) head(b *strings.Builder, limits Limits) {
	if s.Z3() {
		fmt.Fprintf(b, "(set-option :timeout %d)\n", limits.Each.Milliseconds())
	} else {
		fmt.Fprintf(b, "(set-option :tlimit-per %d)\n(set-logic ALL)\n", limits.Each.Milliseconds())
	}
}

var pair = regexp.MustCompile(`\(([A-Za-z0-9!]+) (true|false)\)`)

// Values asks one question without quantifiers, and returns which of the named truths hold, if the
// answer is Sat.
func (s *Solver) Values(ctx context.Context, question string, names []string, limits Limits) (Answer, map[string]bool,
	error) {
	var b strings.Builder
	b.WriteString("(set-option :produce-models true)\n")
	s.head(&b, limits)
	b.WriteString(question)
	b.WriteString("(check-sat)\n")
	if len(names) > 0 {
		fmt.Fprintf(&b, "(get-value (%s))\n", strings.Join(names, " "))
	}
	var answer Answer
	holds := map[string]bool{}
	err := s.lines(ctx, b.String(), limits.All, func(line string) (bool, error) {
		if answer == "" {
			answer = Answer(line)
			if answer != Sat && answer != Unsat && answer != Unknown {
				return false, fmt.Errorf("%s answers %q", s.path, line)
			}
			return answer == Sat && len(names) > 0, nil
		}
		for _, p := range pair.FindAllStringSubmatch(line, -1) {
			holds[p[1]] = p[2] == "true"
		}
		return true, nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil && answer == "" {
		err = fmt.Errorf("%s ended without an answer", s.path)
	}
	if err == nil && answer == Sat && len(holds) != len(names) {
		err = fmt.Errorf("%s tells %d values of %d", s.path, len(holds), len(names))
	}
	return answer, holds, err
}

var errEnough = errors.New("enough is known")

// lines runs the solver and gives each line of its output to heard, until that says false.
func (s *Solver) lines(ctx context.Context, input string, limit time.Duration,
	heard func(line string) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, s.args...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s cannot be started: %w", s.path, err)
	}
	var said error
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 1<<24)
	for said == nil && scan.Scan() {
		line := strings.TrimSpace(scan.Text())
		if line == "" {
			continue
		}
		more, err := heard(line)
		if err != nil {
			said = err
		} else if !more {
			said = errEnough
		}
	}
	if said == nil {
		said = scan.Err()
	}
	if said != nil {
		cancel() // ends the process
	}
	err = cmd.Wait()
	switch {
	case said != nil:
		return said
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end: %w", s.path, ctx.Err())
	case err != nil:
		return fmt.Errorf("%s: %w: %s", s.path, err, firstLine(stderr.String()))
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
