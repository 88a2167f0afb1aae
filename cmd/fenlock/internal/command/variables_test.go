//go:build linux || darwin || freebsd

package command

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag of every subcommand has a variable, which sets it, but those that say why not.
func TestEveryFlagHasAVariable(t *testing.T) {
	without := []string{"help", "version", "node", "local", "exclusive", "close"}
	values := map[string]string{"bool": "true", "int": "7", "duration": "7s", "string": "seven", "stringArray": "seven"}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		cmd.InheritedFlags() // which adds them to the flags
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			name, byHand := variableOf(f), f.Annotations[manually] != nil
			if (name == "") != (slices.Contains(without, f.Name) || byHand) {
				t.Errorf("%s --%s has the variable %q", cmd.CommandPath(), f.Name, name)
			}
			if name == "" || name == nodesFileVariable { // which is nodeFlags's to read
				return
			}
			value := values[f.Value.Type()]
			if value == "" {
				t.Fatalf("%s --%s is a %s: the test has no value for it", cmd.CommandPath(), f.Name, f.Value.Type())
			}
			t.Setenv(name, value)
			if set, err := setFlags(cmd.Flags()); err != nil || set[f.Name] != name ||
				!strings.Contains(f.Value.String(), value) {
				t.Errorf("%s=%s: --%s is %s, %v", name, value, f.Name, f.Value, err)
			}
			os.Unsetenv(name)
			f.Changed = false
		})
	}
	visit(rootCommand(""))
	quiet = false
}

func TestVariables(t *testing.T) {
	h := newHome(t)
	for _, test := range []struct {
		env    []string
		args   []string // of run, before NAME
		status int
		said   []string
		silent string // what is not said
	}{
		{env: []string{"FENLOCK_TTL=5ms"}, status: 64, said: []string{"fenlock: FENLOCK_TTL is 5ms, at least 100ms"}},
		{env: []string{"FENLOCK_TTL=5"}, status: 64, said: []string{`FENLOCK_TTL is "5": time: missing unit`}},
		{env: []string{"FENLOCK_TTL="}, status: 64, said: []string{`FENLOCK_TTL is "": `}},
		{env: []string{"FENLOCK_TTL=5ms"}, args: []string{"--ttl", "20s"}},
		{env: []string{"FENLOCK_TTL=nonsense"}, args: []string{"--ttl", "20s"}},
		{env: []string{"FENLOCK_TTL=1m"}, status: 64, said: []string{"FENLOCK_TTL is 1m0s, longer than --max-ttl, 30s"}},
		{env: []string{"FENLOCK_TTL=1m", "FENLOCK_MAX_TTL=2m"}},
		{env: []string{"FENLOCK_VERBOSE=1"}, said: []string{`"x" is taken`}},
		{env: []string{"FENLOCK_VERBOSE=maybe"}, status: 64,
			said: []string{`FENLOCK_VERBOSE is "maybe": true or false is wanted`}},
		{env: []string{"FENLOCK_CONFLICT_EXIT_CODE=256"}, status: 64,
			said: []string{"FENLOCK_CONFLICT_EXIT_CODE is 256, it must be"}},
		{env: []string{"FENLOCK_WAIT=soon"}, status: 64, said: []string{`FENLOCK_WAIT is "soon": neither a time`}},
		{env: []string{"FENLOCK_WAIT=-1"}, status: 64, said: []string{"FENLOCK_WAIT is -1s, it must not be negative"}},
		{env: []string{"FENLOCK_WAIT=1", "FENLOCK_NO_WAIT=1"}, status: 64,
			said: []string{"FENLOCK_WAIT and FENLOCK_NO_WAIT exclude each other"}},
		{env: []string{"FENLOCK_WAIT=-1"}, args: []string{"-n"}},
		{env: []string{"FENLOCK_NO_WAIT=1"}, args: []string{"--wait", "1"}},
		{env: []string{"FENLOCK_QUIET=1", "FENLOCK_NODES=local"}, args: []string{"-n", "-E0"}, silent: "fenlock"},
		{env: []string{"FENLOCK_QUIET=1"}, args: []string{"--verbose"}, said: []string{`"x" is taken`, "this machine only"}},
		{env: []string{"FENLOCK_VERBOSE=1"}, args: []string{"-q"}, silent: "is taken"},
		{env: []string{"FENLOCK_PREFIX=a"}, status: 64, said: []string{"FENLOCK_PREFIX is about the keys of Valkey"}},
		{env: []string{"FENLOCK_LABEL=a\tb"}, status: 64, said: []string{"FENLOCK_LABEL has a control character"}},
		{env: []string{"FENLOCK_EXCLUSIVE=nonsense"}, said: []string{"FENLOCK_EXCLUSIVE means nothing"}},

		{env: []string{"FENLOCK_TLL=5"},
			said: []string{"fenlock: the environment variable FENLOCK_TLL means nothing; did you mean FENLOCK_TTL?\n"}},
		{env: []string{"FENLOCK_NODE=valkey://:secret@h"},
			said: []string{"FENLOCK_NODE means nothing; did you mean FENLOCK_NODES or"}},
		{env: []string{"FENLOCK_FROBNICATE=secret", "FENLOCK_Z=1"},
			said: []string{"FENLOCK_Z means nothing\n", "FENLOCK_FROBNICATE means nothing\n"}},
		{env: []string{"FENLOCK_TLL=5"}, args: []string{"--quiet"}, silent: "FENLOCK_TLL"},
		{env: []string{"FENLOCK_NEW_SERVERS=1"},
			said: []string{"FENLOCK_NEW_SERVERS means nothing: give --new-servers on the command line"}},
		{env: []string{"FENLOCK_LOCAL=1"},
			said: []string{"FENLOCK_LOCAL means nothing: a lock of this machine only is FENLOCK_NODES=local\n",
				"no servers are named"}},
		{env: []string{"FENLOCK_NAME=a", "FENLOCK_TOKEN=1", "FENLOCK_HELD=", "FENLOCKED=1", "XFENLOCK_TLL=1"},
			silent: "means nothing"},
	} {
		h := &home{t: t, state: h.state, env: append(slices.Clone(h.env), test.env...)}
		r := h.start(slices.Concat([]string{"fenlock", "run"}, test.args, []string{"x", "--", "true"})...)
		r.want(test.status, test.said...)
		if got := r.stderr.String(); test.silent != "" && strings.Contains(got, test.silent) ||
			strings.Contains(got, "secret") {
			t.Errorf("%q %q: stderr has %q", test.env, test.args, got)
		}
	}
	// A command under fenlock that runs fenlock is told of nothing.
	r := h.start("fenlock", "run", "x", "--", "fenlock", "run", "y", "--", "true")
	if r.want(0); strings.Contains(r.stderr.String(), "means nothing") {
		t.Errorf("stderr: %s", &r.stderr)
	}
}

// A subcommand that is made alone, as it is called, is the one that is made with all others, and
// knows their variables.
func TestASubcommandAlone(t *testing.T) {
	for _, s := range subcommands {
		if needed([]string{s.name, "x"}) != s.name && s.name != manPages {
			t.Errorf("fenlock %s makes all of them", s.name)
		}
		var help []string
		for _, only := range []string{s.name, ""} {
			cmd, _, err := rootCommand(only).Find([]string{s.name})
			must(t, err)
			help = append(help, cmd.Long+cmd.UsageString())
		}
		if help[0] != help[1] {
			t.Errorf("fenlock %s has, alone,\n%s\nand else\n%s", s.name, help[0], help[1])
		}
	}
	for _, args := range [][]string{nil, {"man"}, {"help", "run"}, {"-q", "run"}, {"runn"}} {
		if only := needed(args); only != "" {
			t.Errorf("%q makes %s only", args, only)
		}
	}
	h := newHome(t, "FENLOCK_LIMIT=3", "FENLOCK_LISTEM=x")
	r := h.start("fenlock", "run", "--local", "a", "--", "true")
	r.want(0, "FENLOCK_LISTEM means nothing; did you mean FENLOCK_LISTEN?")
	if strings.Contains(r.stderr.String(), "FENLOCK_LIMIT") {
		t.Errorf("that of another subcommand is told: %s", &r.stderr)
	}
	r = h.start("fenlock", "run", "--local", "--quiet", "a", "--", "true")
	r.want(0)
	if r.stderr.Len() > 0 {
		t.Errorf("with --quiet: %s", &r.stderr)
	}
}
