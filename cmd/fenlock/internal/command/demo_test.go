//go:build linux || darwin || freebsd

package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/demo"
)

func TestTheHelpHasTheScenes(t *testing.T) {
	var all [][2]string
	for _, s := range demo.Scenes() {
		all = append(all, [2]string{s.Name, s.Title})
	}
	if !slices.Equal(scenes, all) {
		t.Errorf("the help has %q, and the demo %q", scenes, all)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	h := newHome(t, "TMPDIR="+t.TempDir(), "FENLOCK_NODES=valkey://192.0.2.1") // not for other users
	out := h.output(0, "demo outage")
	for _, text := range []string{"== outage: ", "    fenlock ui --nodes-file ", "  Promise: ", "It went as told."} {
		if !strings.Contains(out, text) {
			t.Errorf("it does not show %q:\n%s", text, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("colours, and no terminal: %q", out)
	}
}

func TestDemoArguments(t *testing.T) {
	h := newHome(t)
	h.start("fenlock", "demo", "pause").want(exitUsage,
		`there is no scene "pause": the scenes are paused, restart, outage`)
	h.start("fenlock", "demo", "paused", "outage").want(exitUsage, "at most 1 arg")
	h.start("fenlock", "demo", "client").want(exitUsage, "is started by fenlock demo")
	h.start("env", "PATH=/nowhere", program, "demo").want(1, "apt-get install valkey-server")
}

// Where what it shows is not read, it ends.
func TestDemoIntoAClosedPipe(t *testing.T) {
	t.Parallel()
	r := newHome(t, "TMPDIR="+t.TempDir()).start("sh", "-c", "(fenlock demo paused; echo $? >&3) 3>&2 | head -n 1")
	r.want(0, "broken pipe", "\n1\n")
}
