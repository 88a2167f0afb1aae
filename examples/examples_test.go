// Package examples has programs, one in each folder. Its tests run them, with what they show and
// without.
package examples

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// They mostly wait, so that more of them can run at once than there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}

// programs are the examples that have a flag -without. Each has what it prints, as a regular
// expression over all of it. It also has what it fails with without the lock or the guard.
var programs = map[string]struct{ shows, without string }{
	"nightly": {
		`Monday(.* makes the report){1}.* skips it.*machine 5 skips it: machine \d.*Tuesday.* makes the report.*Two nights, two reports`,
		`FAILED: the reports of two nights are .*Monday.*Monday`,
	},
	"migrate": {
		`did migration 1\n.*did migration 3\n.*nothing to migrate.*instance 4 did migration 4\n.*dead.*instance [56] did migration 5\n.*Each migration was done once`,
		`(already exists|duplicate column name).*FAILED`,
	},
	"orders": {
		`worker 1 is paused.*worker 2 writes 7.*worker 1 writes 8: refused.*3 apples are ordered, and 7 of 10`,
		`worker 1 writes 8\n.*FAILED: that makes 13`,
	},
	"leader": {
		`candidate 1 leads.*candidate 2 stands by.*others: candidate 2 leads.*One led after the other`,
		`FAILED: candidate 1 led again`,
	},
	"object": {
		`client 2 writes the object.*client 1 writes the (file|object), and is refused.*client 1 writes the (file|object), and is refused.*are client 2's`,
		`FAILED: client 2's report is lost`,
	},
	"pool": {
		`on card 2 is done.*8 jobs on 3 cards`,
		`FAILED: .*is in use`,
	},
}

// build returns the folder with the programs.
func build(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	args := []string{"build", "-o", folder + "/"}
	for name := range programs {
		args = append(args, "./"+name)
	}
	if output, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return folder
}

// play runs a program, and returns how it ended and what it said.
func play(path string, environment []string, args ...string) (status int, said string) {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), environment...)
	output, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(output)
}

func TestExamples(t *testing.T) {
	folder := build(t)
	for name, want := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, said := play(filepath.Join(folder, name), nil)
			if status != 0 || !regexp.MustCompile(`(?s)`+want.shows).MatchString(said) {
				t.Errorf("status %d:\n%s", status, said)
			}
		})
		t.Run(name+" without", func(t *testing.T) {
			t.Parallel()
			status, said := play(filepath.Join(folder, name), nil, "-without")
			if status != 1 || !regexp.MustCompile(`(?s)`+want.without).MatchString(said) {
				t.Errorf("status %d:\n%s", status, said)
			}
		})
	}
	t.Run("on servers", func(t *testing.T) {
		t.Parallel()
		var nodes []string
		for _, server := range testserver.Group(t, testserver.Kinds(t)[0], 3) {
			server.MarkAdmitted(valkeynode.DefaultPrefix, fenlock.DefaultMaxTTL)
			nodes = append(nodes, server.URL())
		}
		for _, name := range []string{"leader", "pool", "orders"} {
			status, said := play(filepath.Join(folder, name), []string{"FENLOCK_NODES=" + strings.Join(nodes, ",")})
			if status != 0 || !regexp.MustCompile(`(?s)`+programs[name].shows).MatchString(said) {
				t.Errorf("%s: status %d:\n%s", name, status, said)
			}
		}
	})
}

// README.md has a section for each, with its command, and what the program prints is no other.
func TestREADMEListsThem(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		name := filepath.Dir(f)
		if !strings.Contains(string(text), "go run ./examples/"+name) {
			t.Errorf("README.md does not say how %s is run", name)
		}
		source, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(source), "//	go run ./examples/"+name) {
			t.Errorf("%s does not say how it is run: %v", f, err)
		}
		if lines := strings.Count(string(source), "\n"); lines > 150 {
			t.Errorf("%s has %d lines, which are more than one reads", f, lines)
		}
	}
}
