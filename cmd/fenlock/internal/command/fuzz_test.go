//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/spf13/cobra"
)

const fuzzCommand = "/nonexistent/fenlock-fuzz"

// fuzzRun is "fenlock run" with these arguments, except that the command is replaced by one that
// does not exist. With a usage error nothing gets as far as looking for it. Without one it ends
// there, before a node is opened. It returns the exit status, and what run was given after its
// flags.
func fuzzRun(args []string) (exit int, given []string, run *cobra.Command) {
	root := rootCommand("")
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		panic(err)
	}
	inner := run.RunE
	run.RunE = func(cmd *cobra.Command, args []string) error {
		given = slices.Clone(args)
		args = slices.Clone(args)
		if args[1] == "--" { // else it is the shell's, which does not exist
			args[2] = fuzzCommand
		}
		return inner(cmd, args)
	}
	root.SetArgs(append([]string{"run"}, args...))
	err = root.Execute()
	var e *exitError
	switch {
	case err == nil:
		return 0, given, run
	case errors.As(err, &e):
		return e.status, given, run
	}
	return exitUsage, given, run // as status has it
}

// FuzzRunArguments: with arguments that make no sense the exit status is 64 and no command is
// looked for. With valid arguments the command is the one behind the "--", untouched. The arguments
// are the lines of the input.
func FuzzRunArguments(f *testing.F) {
	for _, args := range [][]string{
		{}, {"x"}, {"x", "--"}, {"x", "--", "true"}, {"x", "true"}, {"x", "true", "y"}, {"x", "--no-wait", "--", "true"},
		{"--", "-x", "--", "true"}, {"--", "x", "true"},
		{"--frob", "x", "--", "true"}, {"--wait", "3", "x", "--", "true"}, {"--wait", "-1s", "x", "--", "true"},
		{"--wait", "1s", "--no-wait", "x", "--", "true"},
		{"--wait=1s", "--verbose=false", "x", "--", "sh", "-c", "exit 3", "--"}, {"-E", "256", "x", "--", "true"},
		{"-E0", "x", "--", "true"}, {"-E=75", "x", "--", "true"},
		{"--ttl", "0", "x", "--", "true"}, {"--ttl", "1ns", "x", "--", "true"}, {"--max-ttl", "0", "x", "--", "true"},
		{"--max-hold", "-1s", "x", "--", "true"},
		{"--max-hold", "0", "--max-ttl", "24h", "--ttl", "1h", "--prefix", "", "--label", "me", "--node", "valkey://a",
			"--node", "valkey://b", "x", "--", "true"},
		{"--ttl", "9999999999h", "x", "--", "true"}, {"-h"}, {"--help", "x"}, {"x", "--", "--help"}, {"--wait"},
		{"", "--", "true"}, {"\xff", "--", "true"}, {"--no-wait=maybe", "x", "--", "true"},
		{"--", "--", "--", "--"}, {"-", "--", "true"}, {"---", "x", "--", "true"}, {"--=", "x", "--", "true"}, {"-E"},
		{"x", "--", ""}, {"--node", "--", "x", "--", "true"}, {"-vE1", "x", "--", "true"},
		{"x", "-c", "exit 3"}, {"x", "-c"}, {"x", "-c", "a", "b"}, {"x", "--command", ""}, {"-c", "true", "x"},
		{"-w", "5", "x", "--", "true"}, {"-w.5", "x", "--", "true"}, {"--wait", "1e3", "x", "--", "true"},
		{"-n", "x", "--", "true"}, {"-nw", "1", "x", "--", "true"}, {"-onxE3", "x", "--", "true"}, {"-s", "x", "--", "true"},
		{"-q", "--verbose", "x", "--", "true"}, {"--quiet=0", "--verbose", "x", "--", "true"},
		{"-wait", "5", "x", "--", "true"}, {"-n=false", "-w", "9999999999999999", "x", "--", "true"},
		{"-q=1", "x", "--", "true"}, {"--pass-nodes", "--nodes-file", "f", "x", "--", "true"},
		{"--local", "x", "--", "true"}, {"--local", "--node", "a", "x", "--", "true"},
		{"--local", "--nodes-file", "", "x", "--", "true"}, {"--local=0", "--node", "a", "x", "--", "true"},
		{"--node", "a", "--nodes-file", "f", "x", "--", "true"},
	} {
		f.Add(strings.Join(args, "\n"))
	}
	f.Setenv("SHELL", fuzzCommand)
	f.Fuzz(func(t *testing.T, input string) {
		var args []string
		if input != "" {
			args = strings.Split(input, "\n")
		}
		if strings.Contains(input, "-h=") || strings.Contains(input, "--help=") {
			return // asked for help, and maybe not
		}
		status, given, run := fuzzRun(args)
		switch status {
		case 0:
			if given != nil || !slices.ContainsFunc(args,
				func(a string) bool { return strings.HasPrefix(a, "-") && strings.Contains(a, "h") }) {
				t.Errorf("%q: status 0, run with %q", args, given)
			}
			return
		case exitUsage:
		case exitNotFound:
		default:
			t.Fatalf("%q: status %d", args, status)
		}
		want, problem := nonsense(args, run)
		if (problem == "") != (status == exitNotFound) || problem == "" && !slices.Equal(given, want) {
			t.Errorf("%q: status %d, run with %q, want %q; wrong with it: %q", args, status, given, want, problem)
		}
	})
}

// nonsense says what is wrong with the arguments of run, "" for nothing, by rules
// of its own, and returns what is behind the flags.
func nonsense(args []string, run *cobra.Command) (rest []string, problem string) {
	values := map[string]string{}
	rest = args
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
		flag := rest[0]
		rest = rest[1:]
		if flag == "--" {
			break
		}
		name, value, has := strings.Cut(flag, "=")
		if !strings.HasPrefix(flag, "--") {
			// Letters that take no value, and one that does, at the end.
			letters := flag[1:]
			for len(letters) > 1 && strings.Contains("nxoqs", letters[:1]) && letters[1] != '=' {
				values[fuzzLetters[letters[:1]]] = "true"
				letters = letters[1:]
			}
			if name = fuzzLetters[letters[:1]]; name == "" {
				return nil, "a letter that is no flag"
			}
			value, has = letters[1:], len(letters) > 1
			value = strings.TrimPrefix(value, "=")
			if has && strings.Contains("nxoqs", letters[:1]) && letters[1] != '=' {
				return nil, "cannot be"
			}
		}
		switch name {
		case "--no-wait", "--verbose", "--shared", "--new-servers", "--quiet", "--exclusive", "--close", "--pass-nodes",
			"--local":
			if !has {
				value = "true"
			}
			if _, err := strconv.ParseBool(value); err != nil {
				return nil, "neither true nor false"
			}
		case "--node", "--nodes-file", "--wait", "--conflict-exit-code", "--ttl", "--max-hold", "--max-ttl", "--prefix",
			"--label", "--slots":
			if !has && len(rest) == 0 {
				return nil, "a flag without its value"
			}
			if !has {
				value, rest = rest[0], rest[1:]
			}
		default:
			return nil, "an unknown flag"
		}
		switch name {
		case "--wait":
			if d, ok := fuzzWait(value); !ok {
				return nil, "no time to wait"
			} else {
				value = d.String()
			}
		case "--ttl", "--max-hold", "--max-ttl":
			if _, err := time.ParseDuration(value); err != nil {
				return nil, "no duration"
			}
		case "--conflict-exit-code", "--slots":
			if _, err := strconv.ParseInt(value, 0, 64); err != nil {
				return nil, "no number"
			}
		}
		values[name] = value
	}
	if shell := len(rest) == 3 && (rest[1] == "-c" || rest[1] == "--command"); len(rest) < 3 || rest[1] != "--" && !shell {
		return nil, "no NAME -- COMMAND"
	}
	duration := func(name string, otherwise time.Duration) time.Duration {
		if value, set := values[name]; set {
			otherwise, _ = time.ParseDuration(value)
		}
		return otherwise
	}
	wait, waits := values["--wait"]
	noWait, _ := strconv.ParseBool(values["--no-wait"])
	quiet, _ := strconv.ParseBool(values["--quiet"])
	verbose, _ := strconv.ParseBool(values["--verbose"])
	code := int64(exitHeld)
	if value, set := values["--conflict-exit-code"]; set {
		code, _ = strconv.ParseInt(value, 0, 64)
	}
	local, _ := strconv.ParseBool(values["--local"])
	_, node := values["--node"]
	_, file := values["--nodes-file"]
	shared, _ := strconv.ParseBool(values["--shared"])
	slots, _ := strconv.ParseInt(values["--slots"], 0, 64)
	switch {
	case slots < 0, slots > fenlock.MaxSlots, slots > 0 && shared:
		return nil, "no such slots"
	case local && (node || file), node && file:
		return nil, "two places"
	case waits && noWait:
		return nil, "two ways to wait"
	case quiet && verbose:
		return nil, "two ways to speak"
	case code < 0 || code > 255:
		return nil, "no exit status"
	case duration("--wait", 0) < 0, duration("--max-hold", 0) < 0, duration("--ttl", 1) <= 0,
		duration("--max-ttl", 1) <= 0:
		return nil, "no such time"
	case fenlock.CheckName(rest[0]) != nil:
		return nil, "no name"
	}
	if got := run.Flag("wait").Value.String(); waits && got != duration("--wait", 0).String() {
		return nil, "another wait than " + wait + ": " + got
	}
	return rest, ""
}

var fuzzLetters = map[string]string{"s": "--shared", "n": "--no-wait", "x": "--exclusive", "o": "--close",
	"q": "--quiet", "w": "--wait", "E": "--conflict-exit-code"}

// fuzzWait reads a time to wait: a duration, or a decimal number of seconds.
func fuzzWait(text string) (time.Duration, bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, true
	}
	for _, r := range text {
		if (r < '0' || r > '9') && r != '.' && r != '-' && r != '+' {
			return 0, false
		}
	}
	d, err := time.ParseDuration(text + "s")
	return d, err == nil
}

// FuzzRunValues: whatever the values, what can work together is accepted, and the
// library's limits are told in the words of the flags.
func FuzzRunValues(f *testing.F) {
	const ms, s, h = int64(time.Millisecond), int64(time.Second), int64(time.Hour)
	for _, v := range [][4]int64{
		{10 * s, 30 * s, h, 75}, {100 * ms, 30 * s, h, 0}, {100*ms - 1, 30 * s, h, 0}, {100*ms + 1, 30 * s, h, 0},
		{31 * s, 30 * s, h, 255}, {10 * s, 24 * h, 0, 256}, {10 * s, 24*h + 1, 0, 1},
		{10 * s, 30 * s, 9 * s, -1}, {-1, -1, -1, 0}, {0, 0, 0, 0},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}, {math.MinInt64, 1, 1, 1},
	} {
		f.Add(v[0], v[1], v[2], v[3], "orders/42", "label")
	}
	f.Add(10*s, 30*s, h, int64(75), "a\nb", "label")
	f.Add(10*s, 30*s, h, int64(75), "a", "la\nbel")
	f.Add(10*s, 30*s, h, int64(75), "Config.TTL", "\xff")
	f.Fuzz(func(t *testing.T, ttl, maxTTL, maxHold, code int64, name, label string) {
		args := []string{"--ttl", time.Duration(ttl).String(), "--max-ttl", time.Duration(maxTTL).String(), "--max-hold",
			time.Duration(maxHold).String(),
			"-E", strconv.FormatInt(code, 10), "--label", label, "--node", "valkey://127.0.0.1:1", "--", name, "--", "true"}
		status, given, _ := fuzzRun(args)
		good := ttl > 0 && maxTTL > 0 && maxHold >= 0 && code >= 0 && code <= 255 && fenlock.CheckName(name) == nil
		if want := map[bool]int{true: exitNotFound, false: exitUsage}[good]; status != want ||
			good && !slices.Equal(given, []string{name, "--", "true"}) {
			t.Fatalf("%q: status %d, run with %q; want %d", args, status, given, want)
		}
		if !good {
			return
		}
		t.Setenv(nodesVariable, "")
		o := runOptions{nodes: nodeFlags{urls: []string{"valkey://127.0.0.1:1"}}, ttl: time.Duration(ttl),
			maxTTL: time.Duration(maxTTL), maxHold: time.Duration(maxHold), label: label}
		locker, err := o.open("x", fenlock.Observer{})
		if err == nil {
			locker.Close()
		}
		fits := ttl%ms == 0 && ttl >= 100*ms && ttl <= maxTTL && maxTTL <= 24*h && (maxHold == 0 || maxHold >= ttl) &&
			fenlock.CheckName(label+"x") == nil && len(label) <= 128
		if fits != (err == nil) {
			t.Fatalf("%q: %v", args, err)
		}
		var exit *exitError
		if err != nil && (!errors.As(err, &exit) || exit.status != exitUsage || !strings.HasPrefix(exit.message, "--") ||
			strings.Contains(strings.ReplaceAll(exit.message, strconv.Quote(label), ""), "Config")) {
			t.Errorf("%q: %v is not about the flags", args, err)
		}
	})
}

// FuzzNodes opens nodes by what could be in FENLOCK_NODES, with a password that is not escaped. The
// error is about the usage and does not have the password.
func FuzzNodes(f *testing.F) {
	for _, s := range [][2]string{
		{"valkey://ann:", "@a:1"}, {"valkey://a:1, valkey://:", "@b:1 ,valkey://c:1"}, {"valkey://a,,valkey://:", "@b"},
		{"valkey://ann:x,", "@a"},
		{"valkey://ann:", ",y@a"}, {"http://ann:", "@a"}, {"valkeys://ann:", "@a?ca=/nowhere"}, {"valkey://ann:", "@a:port"},
		{"valkey://ann:", "@a,unix:///x"}, {"valkey://ann:/", "@a"}, {"valkey://ann:1/", ",x@a"}, {"valkey://ann:", "@a#"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "swordfish"
		list := before + secret + after
		// The secret is in a password: the one between a colon behind a :// and an @. A
		// :// in a password behind a comma cannot be told from another node.
		urls := strings.Split(before, "://")
		password, _, ends := strings.Cut(after, "@")
		if len(urls) == 1 || !strings.Contains(urls[len(urls)-1], ":") || !ends || strings.Contains(password, "://") {
			return
		}
		// A file of any name must not be made, or read.
		if strings.Contains(list, "file:") || strings.Contains(list, "%") || strings.Contains(list, "\x00") ||
			strings.Contains(strings.ReplaceAll(list, "ca=/nowhere", ""), "=") {
			return
		}
		t.Setenv(nodesVariable, list)
		t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "none"))
		nodes, err := nodeFlags{}.open(t.Context())
		defer closeAll(nodes)
		if _, made := os.Stat(os.Getenv("XDG_STATE_HOME")); made == nil {
			t.Errorf("%q: the default file was made", list)
		}
		if err == nil {
			if len(nodes) != 1+strings.Count(list, ",") {
				t.Errorf("%q: %d nodes", list, len(nodes))
			}
			return
		}
		var exit *exitError
		if nodes != nil || !errors.As(err, &exit) || exit.status != exitUsage {
			t.Fatalf("%q: %v, %d nodes", list, err, len(nodes))
		}
		if strings.Contains(exit.message, secret) {
			t.Errorf("%q: the password is in %q", list, exit.message)
		}
	})
}
