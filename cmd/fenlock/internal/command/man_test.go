//go:build linux || darwin || freebsd

package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every command has a page, and no line of a text is taken for a macro.
func TestManualPages(t *testing.T) {
	h := newHome(t)
	dir := t.TempDir()
	h.start("fenlock", "man", dir).want(0)
	for _, cmd := range pages(rootCommand("")) {
		text, err := os.ReadFile(filepath.Join(dir, manName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, ".") && !regexp.MustCompile(`^\.(TH|SH|SS|PP|TP|nf|fi)\b`).MatchString(line) ||
				strings.HasPrefix(line, "'") ||
				strings.Contains(regexp.MustCompile(`\\(e|-|&|f[BIR])`).ReplaceAllString(line, ""), `\`) {
				t.Errorf("%s: %q", cmd.CommandPath(), line)
			}
		}
		if !strings.Contains(string(text),
			roff("--quiet")+`\fR`+"\n"+roff("print nothing on stderr but errors; FENLOCK_QUIET")) {
			t.Errorf("%s: no flags in %s", cmd.CommandPath(), text)
		}
	}
	h.start("fenlock", "man", filepath.Join(dir, "none")).want(64, "no such file")
	h.start("fenlock", "man").want(64, "accepts 1 arg")

	if got, want := manText("One\n two.\n\nA 'b'\n.c-d\n\n  x\\\n\ne"),
		".SS One\n.nf\n two.\n.fi\n.PP\nA 'b'\n\\&.c\\-d\n.PP\n.nf\n  x\\e\n.fi\n.PP\ne\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
