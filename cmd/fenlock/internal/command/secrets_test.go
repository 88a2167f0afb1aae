//go:build linux || darwin || freebsd

package command

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMayHavePassword(t *testing.T) {
	for list, want := range map[string]bool{
		"valkey://a:1,valkeys://b:1?ca=/etc/ca.pem, unix:///run/x": false,
		"valkey://user@a?passwordfile=/etc/pw":                     false,
		"file:///var/a":                                            false,
		"postgres://u@%2Frun%2Fpg:5433/d,postgres:///d?host=/run":  false,
		"postgres://u:secret@%2Frun%2fpg/d":                        true,
		"valkey://u:secret@a":                                      true,
		"valkey://a,valkey://:secret@b":                            true,
		"valkey://u:@a":                                            true,
		"valkey://u:se,cret@a":                                     true,
		"valkey://u:1,secret@a":                                    true,
		"valkey://u:1,secret":                                      true,
		"valkey://u:sec/ret@a":                                     true,
		"valkey://u:1?secret@a":                                    true,
		"valkey://u:1#secret@a":                                    true,
		"valkey://u:%zz@a":                                         true,
		"secret":                                                   true,
		"valkey:secret@a":                                          true,
	} {
		if got := mayHavePassword(list); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}

// A command gets no password that was not given to it, and a fenlock in it does not take what it
// gets for no nodes.
func TestTheCommandGetsNoPassword(t *testing.T) {
	list := "valkey://u:swordfish@127.0.0.1:1,valkey://127.0.0.1:2"
	outer := newHome(t).byTime()
	// Its parent is the watchdog, whose environment is to be seen on Linux.
	show := `echo "$FENLOCK_NODES|$FENLOCK_OLD_NODES|$FENLOCK_NODES_FILE"; test ! -e /proc/$PPID/environ || tr '\0' '\n' </proc/$PPID/environ`
	nodes := "file://" + t.TempDir() + "/a"
	for _, test := range []struct{ env, args, want string }{
		{env: "FENLOCK_NODES=" + list, want: withheld + "||"},
		{env: "FENLOCK_NODES=" + list, args: "--pass-nodes", want: list + "||"},
		{env: "FENLOCK_OLD_NODES=" + list, want: "|" + withheld + "|"},
		{env: "FENLOCK_NODES=valkey://127.0.0.1:2", want: "valkey://127.0.0.1:2||"},
		{env: "FENLOCK_NODES_FILE=/no/secret/in/a/name", want: "||/no/secret/in/a/name"},
	} {
		h := &home{t: t, env: append(slices.Clone(outer.env), test.env)}
		args := append([]string{"fenlock", "run", "--node", nodes}, strings.Fields(test.args)...)
		r := h.start(append(args, "x", "-c", show)...)
		if got := r.line(); got != test.want {
			t.Errorf("%s %s: the command has %q", test.env, test.args, got)
		}
		if rest := r.rest(); test.args == "" && strings.Contains(rest, "swordfish") {
			t.Errorf("%s: the watchdog has %q", test.env, rest)
		}
		if r.want(0); strings.Contains(r.stderr.String(), "swordfish") {
			t.Errorf("%s: stderr has %s", test.env, &r.stderr)
		}
	}

	h := &home{t: t, env: append(slices.Clone(outer.env), "FENLOCK_NODES="+list)}
	h.start("fenlock", "run", "--node", nodes, "x", "--", "fenlock", "run", "y", "--", "true").
		want(64, "FENLOCK_NODES was withheld from this command", "--nodes-file", "--pass-nodes")
	file := write(t, filepath.Join(t.TempDir(), "nodes"), nodes+"\n", 0o600)
	h.start("fenlock", "run", "--node", nodes, "x", "--", "fenlock", "run", "--nodes-file", file, "y", "--",
		"true").want(0)
	h.start("fenlock", "run", "--node", nodes, "x", "--", "env", "FENLOCK_NODES_FILE="+file, "fenlock", "run", "y", "--",
		"true").want(0)
}

func TestAPasswordOnTheCommandLineIsTold(t *testing.T) {
	h := newHome(t)
	h.start("fenlock", "run", "--node", "valkey://u:swordfish@127.0.0.1:1", "--ttl", "100ms", "-n", "x", "--", "true").
		want(69, "a password in --node can be read by every user of this machine")
}
