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
func fuzzRun(args []string) (exit int, given []string) {
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
		return 0, given
	case errors.As(err, &e):
		return e.status, given
	}
	return exitUsage, given // as status has it
}

// With arguments that make no sense the exit status is 64 and no command is looked for. With valid
// arguments the command is the one behind the "--", untouched.
func TestRunArguments(t *testing.T) {
	t.Setenv("SHELL", fuzzCommand)
	for want, all := range map[int][]string{
		exitUsage: {"", "x", "x --", "x true", "x true y", "x --no-wait -- true", "--frob x -- true", "--wait -1s x -- true",
			"--wait 1s --no-wait x -- true", "-E 256 x -- true", "--ttl 0 x -- true", "--max-ttl 0 x -- true",
			"--max-hold -1s x -- true", "--ttl 9999999999h x -- true", "--wait", " -- true", "\xff -- true",
			"--no-wait=maybe x -- true", "--- x -- true", "--= x -- true", "-E", "x -c", "x -c a b",
			"-c true x", "--wait 1e3 x -- true", "-nw 1 x -- true", "-wait 5 x -- true",
			"-n=false -w 9999999999999999 x -- true",
			"-q --verbose x -- true", "-vE1 x -- true", "--local --node a x -- true", "--node a --nodes-file f x -- true",
			"--slots 2 --shared x -- true", "--slots -1 x -- true"},
		exitNotFound: {"x -- true", "-- -x -- true", "--wait 3 x -- true", "--wait=1s --verbose=false x -- sh -c exit --",
			"-E0 x -- true", "-E=75 x -- true", "--max-hold 0 --max-ttl 24h --ttl 1h --label me --node valkey://a x -- true",
			"x -- ", "--node -- x -- true", "x -- --help", "-- -- -- --", "- -- true", "x -c exit", "x --command a",
			"-w 5 x -- true", "-w.5 x -- true",
			"-onxE3 x -- true", "-s x -- true", "--quiet=0 --verbose x -- true", "-q=1 x -- true",
			"--local x -- true", "--local=0 --node a x -- true"},
	} {
		for _, line := range all {
			args := strings.Split(line, " ")
			if line == "" {
				args = nil
			}
			status, given := fuzzRun(args)
			if status != want || want == exitNotFound && !slices.Equal(given, args[len(args)-len(given):]) {
				t.Errorf("%q: status %d, run with %q; want %d", args, status, given, want)
			}
		}
	}
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
		status, given := fuzzRun(args)
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
