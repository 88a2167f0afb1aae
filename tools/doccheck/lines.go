package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
	"mvdan.cc/sh/v3/syntax"
)

// lines knows what a command line of a document may name.
type lines struct {
	root    string
	folder  string // temporary
	fenlock string // the command, built
	targets []string
	tests   *tests
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

func newLines(root string) (*lines, error) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return nil, err
	}
	l := &lines{root: root}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		l.targets = append(l.targets, m[1])
	}
	if l.tests, err = findTests(root); err != nil {
		return nil, err
	}
	if l.folder, err = os.MkdirTemp("", "doccheck"); err != nil {
		return nil, err
	}
	l.fenlock = filepath.Join(l.folder, "fenlock")
	build := exec.Command("go", "build", "-o", l.fenlock, ".")
	build.Dir, build.Stderr = filepath.Join(root, "cmd", "fenlock"), os.Stderr
	if err := build.Run(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lines) close() { os.RemoveAll(l.folder) }

// checkLines checks the command lines and the names of tests of a document.
func (c *checker) checkLines(d *docs.Document, l *lines) {
	for _, block := range d.Blocks() {
		if !slices.Contains([]string{"", "sh", "bash", "shell", "console"}, block.Language) {
			continue
		}
		begun := "" // a line that goes on in the next one
		for i, line := range strings.Split(block.Text, "\n") {
			line = begun + strings.TrimSpace(line)
			if part, goesOn := strings.CutSuffix(line, `\`); goesOn {
				begun = part
				continue
			}
			begun = ""
			c.checkLine(d, block.Line+i, line, l, false)
		}
	}
	for _, span := range d.Spans() {
		c.checkLine(d, span.Line, span.Text, l, true)
		if known, is := l.tests.named(span.Text); is {
			c.names++
			if !known {
				c.wrong(d, span.Line, "there is no `%s`", span.Text)
			}
		}
	}
}

// spans are names of OpenTelemetry that look like commands.
var spans = []string{"fenlock acquire", "fenlock hold"}

var (
	prompt = regexp.MustCompile(`^(\$ |([*/0-9,-]+ +){5})`) // of a shell, or the times of a crontab
	starts = regexp.MustCompile(`^([A-Z_]+=\S* )*(sudo |watch )?(fenlock|make|go) \S`)
	within = regexp.MustCompile(`[(|&;{] *(fenlock|make|go) \S`)
)

// checkLine checks one line, if it is a command of ours. One within text may be a
// part of a command only.
func (c *checker) checkLine(d *docs.Document, number int, line string, l *lines, text bool) {
	line = prompt.ReplaceAllString(line, "")
	first := starts.MatchString(line)
	if !first && !within.MatchString(line) || slices.Contains(spans, line) {
		return
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		if first {
			c.wrong(d, number, "%s\n\tno shell reads this: %v", line, err)
		}
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		words := literals(call.Args)
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "watch") {
			words = words[1:]
		}
		if len(words) < 2 {
			return true
		}
		complaint := ""
		switch words[0] {
		case "fenlock", "bin/fenlock":
			complaint = l.asFenlock(words[1:], text)
		case "make":
			complaint = l.asMake(words[1:])
		case "go":
			complaint = l.asGo(words[1:], text)
		default:
			return true
		}
		c.commands++
		if complaint != "" {
			c.wrong(d, number, "%s\n\t%s", line, complaint)
		}
		return true
	})
}

// literals returns the words of a command. What a shell would have to put in is "1".
func literals(words []*syntax.Word) []string {
	var all []string
	for _, w := range words {
		var b strings.Builder
		for _, part := range w.Parts {
			switch part := part.(type) {
			case *syntax.Lit:
				b.WriteString(strings.ReplaceAll(part.Value, `\`, ""))
			case *syntax.SglQuoted:
				b.WriteString(part.Value)
			case *syntax.DblQuoted:
				for _, inner := range part.Parts {
					if lit, ok := inner.(*syntax.Lit); ok {
						b.WriteString(lit.Value)
					} else {
						b.WriteByte('1')
					}
				}
			default:
				b.WriteByte('1')
			}
		}
		all = append(all, b.String())
	}
	return all
}

var placeholder = regexp.MustCompile(`^--[a-z-]+: "[A-Z]+" is not `)

// asFenlock has the command itself read its arguments: with --help it looks at the
// subcommand and at all flags, and does nothing else.
func (l *lines) asFenlock(args []string, part bool) string {
	help := []string{args[0], "--help"}
	if strings.HasPrefix(args[0], "-") {
		help = []string{"--help", args[0]}
	}
	run := exec.Command(l.fenlock, append(help, args[1:]...)...)
	run.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FENLOCK_") })
	out, err := run.CombinedOutput()
	if err == nil {
		return ""
	}
	said := string(bytes.TrimPrefix(bytes.TrimSpace(out), []byte("fenlock: ")))
	if part && (strings.Contains(said, "needs an argument") || placeholder.MatchString(said)) {
		return ""
	}
	return said
}

func (l *lines) asMake(args []string) string {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && !slices.Contains(l.targets, arg) {
			return "the Makefile has no target " + arg
		}
	}
	return ""
}
