package main

import (
	"strings"
	"testing"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// Each line is wrong in a way of its own, or right where a careless checker would complain.
func TestCommandLines(t *testing.T) {
	l, err := newLines("../..")
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, test := range []struct{ text, complaint string }{
		{"    fenlock run --no-wait NAME -- COMMAND --nope # why", ""},
		{"    fenlock run --no-wiat NAME -- COMMAND", "unknown flag: --no-wiat"},
		{"    FENLOCK_NODES=x fenlock runn x", `unknown command "runn"`},
		{`    */5 * * * *  fenlock run --nope "report@$(date +\%F)" -- ./report`, "unknown flag: --nope"},
		{`    */5 * * * *  fenlock run -n "report@$(date +\%F)" -- ./report`, ""},
		{"    $ fenlock inspect --nope", "unknown flag: --nope"},
		{"    (cd x && fenlock ls --nope)", "unknown flag: --nope"},
		{"    fenlock run --node a \\\n        --nope x -- y", "unknown flag: --nope"},
		{"    fenlock ls \"x", "no shell reads this"},
		{"    fenlock run --wait soon x -- y", `neither a time`},
		{"    fenlock        the API: blocks its callers", ""},
		{"    fenlock: not a command line", ""},
		{"    make -s build && make nope", "no target nope"},
		{"    make faults ENGINE=postgres", ""},
		{"    go run ./cmd/fenlock run --nope x -- y", "unknown flag: --nope"},
		{"    go run ./nope", "no package ./nope"},
		{"    go test ./internal/nope -run Scripts", "no package ./internal/nope"},
		{"    go test -run Scripts ./internal/sim", ""},
		{"    go test -run Scripts ./internal/core", "of ./internal/core matches Scripts"},
		{"    go test -run Nope .", "matches Nope"},
		{"    go test -run XXX -bench Nope .", "matches Nope"},
		{"    go test -run FuzzSocket -fuzz FuzzNope .", "matches FuzzNope"},
		{"`fenlock run --metrics HOST:PORT`", ""},
		{"`fenlock run --metrics`", ""},
		{"`fenlock run --slots N`", ""},
		{"`fenlock run --nope`", "unknown flag: --nope"},
		{"`make nope`", "no target nope"},
		{"`TestNope`", "there is no `TestNope`"},
		{"`TestCommandLines/x`", ""},
		{"`nope_test.go`", "there is no `nope_test.go`"},
		{"`sim/mutants*_test.go`", ""},
		{"`core/mutants*_test.go`", "there is no `core/mutants*_test.go`"},
		{"```go\nfenlock run --nope\n```", ""},
	} {
		c := &checker{root: "../.."}
		c.checkLines(docs.Parse("x.md", []byte(test.text)), l)
		said := strings.Join(c.problems, "\n")
		if said == "" && test.complaint != "" || said != "" && test.complaint == "" ||
			!strings.Contains(said, test.complaint) {
			t.Errorf("%s\n\tgot:  %s\n\twant: %s", test.text, said, test.complaint)
		}
	}
}

func TestLinks(t *testing.T) {
	for _, test := range []struct{ text, complaint string }{
		{"# A title, `code`: [a link](../README.md)\n\n[up](#a-title-code-a-link)", ""},
		{"# Twice\n\n# Twice\n\n[second](#twice-1)", ""},
		{"# Title\n\n[down](#titel)", "no heading of that name"},
		{"[one](engines.md#there) [two](https://other.example/#x)", ""},
		{"[one](engines.md#here)", "docs/engines.md has no heading of that name"},
		{"![picture](nope.svg)", "leads nowhere"},
		{"```\n[x](nope.md)\n```\n\n`[x](nope.md)`", ""},
	} {
		d := docs.Parse("docs/command.md", []byte(test.text))
		other := docs.Parse("docs/engines.md", []byte("# There"))
		c := &checker{root: "../..", found: map[string]*docs.Document{d.Path: d, other.Path: other}}
		c.checkLinks(d)
		said := strings.Join(c.problems, "\n")
		if said == "" && test.complaint != "" || said != "" && test.complaint == "" ||
			!strings.Contains(said, test.complaint) {
			t.Errorf("%s\n\tgot:  %s\n\twant: %s", test.text, said, test.complaint)
		}
	}
}
