//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

func TestACL(t *testing.T) {
	h := newHome(t)
	file := func(text string, mode os.FileMode) string {
		return write(t, filepath.Join(t.TempDir(), "password"), text, mode)
	}
	const begin = "ACL SETUSER lock-user on clearselectors resetkeys resetchannels -@all "
	for _, test := range []struct{ args, out, not string }{
		{"", begin + "~fenlock:* ~fenlock-registers:fenlock: ~fenlock-line:fenlock:* &fenlock-wake:* +info ", " +select"},
		{"--select", " +select\n", ""},
		{"--read-only --user eve", "ACL SETUSER eve on clearselectors resetkeys resetchannels -@all %R~fenlock:* ", "+set"},
		{"--prefix app:", " ~app:* ~fenlock-registers:app: ~fenlock-line:app:* ", "~fenlock:"},
		{"--prefix=", " -@all ~* &fenlock-wake:* ", "registers"},
		{`--prefix a"b\`, ` "~a\"b\\\\*" `, ""},
		{"--password-file " + file("swordfish\n", 0o600),
			" on resetpass #b9f195c5cc7ef6afadbfbc42892ad47d3b24c6bc94bb510c4564a90a14e8b799 clearselectors ", "swordfish"},
	} {
		r := h.start(append([]string{"fenlock", "acl"}, strings.Fields(test.args)...)...)
		out := r.rest()
		r.want(0)
		if !strings.Contains(out, test.out) || test.not != "" && strings.Contains(out, test.not) ||
			strings.Count(out, "\n") != 1 {
			t.Errorf("acl %s: %q", test.args, out)
		}
		if hint := strings.Contains(r.stderr.String(), "cannot log in"); hint == strings.Contains(test.args, "password") {
			t.Errorf("acl %s: stderr has %q", test.args, r.stderr.String())
		}
	}
	for _, test := range []struct {
		args []string
		said string
	}{
		{[]string{"--user", "a b"}, "no spaces"},
		{[]string{"--user", ""}, "no spaces"},
		{[]string{"--user", "a\nb"}, "no spaces"},
		{[]string{"--prefix", "fenlock-line:x"}, "--prefix: the prefix"},
		{[]string{"--cluster-tag", "a}b"}, "--cluster-tag: "},
		{[]string{"--cluster-tag", "a/b?db=1"}, "--cluster-tag: "},
		{[]string{"--cluster-tag", "0"}, "a cluster has one database"},
		{[]string{"--password-file", ""}, "--password-file: the file's name is empty"},
		{[]string{"--password-file", file("swordfish", 0o644)}, "chmod 600"},
		{[]string{"more"}, "more"},
	} {
		r := h.start(append([]string{"fenlock", "acl"}, test.args...)...)
		r.want(64, test.said)
		if out := r.rest(); out != "" || strings.Contains(r.stderr.String(), "swordfish") {
			t.Errorf("acl %q: %q, %s", test.args, out, &r.stderr)
		}
	}
}

// What the documents show is what the command prints.
func TestTheDocumentedACL(t *testing.T) {
	h := newHome(t)
	out := h.output(0, "acl -q")
	text, err := os.ReadFile("../../../../docs/valkey.md")
	if err != nil || !strings.Contains(string(text), "\n    "+out) {
		t.Errorf("docs/valkey.md does not have the line (%v):\n    %s", err, out)
	}
}

// As an operator sets it up: the line goes to the servers, the password and the nodes into files.
// No other user can read the password where fenlock runs.
func TestSecretsOnServers(t *testing.T) {
	const secret = "swordfish-of-the-group"
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		h := newHome(t)
		dir := t.TempDir()
		file := func(name, text string) string { return write(t, filepath.Join(dir, name), text, 0o600) }
		password := file("password", secret+"\n")
		line := strings.Fields(h.output(0, "acl --password-file "+password))
		var inURL, inFile []string
		for _, s := range testserver.Group(t, kind, 3) {
			if reply := s.Do(line...); reply != "OK" {
				t.Fatal(reply)
			}
			s.Do("ACL", "SETUSER", "default", "off")
			_, err := s.Ask("lock-user", secret, time.Minute, "PING")
			must(t, err)
			inURL = append(inURL, strings.Replace(s.URL(), "://", "://lock-user:"+secret+"@", 1))
			inFile = append(inFile, fmt.Sprintf("%s?passwordfile=%s", strings.Replace(s.URL(), "://", "://lock-user@", 1),
				password))
		}
		// What every user of a Linux machine can read, and what the command could print.
		const look = `env; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '`
		for i, test := range []struct{ env, flag string }{
			{env: "FENLOCK_NODES=" + strings.Join(inURL, ",")},
			{env: "FENLOCK_NODES=" + strings.Join(inFile, ",")},
			{env: "FENLOCK_NODES_FILE=" + file("urls", strings.Join(inURL, "\n"))},
			{flag: "--nodes-file=" + file("files", strings.Join(inFile, "\n"))},
		} {
			h := &home{t: t, env: slices.Clone(h.env)}
			args := []string{"fenlock", "run", "--verbose"}
			if test.env != "" {
				h.env = append(h.env, test.env)
			}
			if test.flag != "" {
				args = append(args, test.flag)
			}
			if i == 0 {
				args = append(args, "--new-servers")
			}
			r := h.start(append(args, "x", "-c", look)...)
			out := r.rest()
			r.want(0, `"x" is taken`, `"x" is released`)
			if strings.Contains(out, secret) || !strings.Contains(out, "FENLOCK_TOKEN=") {
				t.Errorf("%s: the command sees %q", test, out)
			}
			if strings.Contains(r.stderr.String(), secret) {
				t.Errorf("%s: stderr has %s", test, &r.stderr)
			}
		}
		// A wrong password is an error without it.
		h.env = append(h.env, "FENLOCK_NODES="+strings.ReplaceAll(strings.Join(inURL, ","), secret, secret+"-not"))
		r := h.start("fenlock", "run", "--verbose", "x", "--", "true")
		r.want(69, "the user or the password is wrong")
		if strings.Contains(r.stderr.String(), secret) {
			t.Errorf("stderr has %s", &r.stderr)
		}
	})
}
