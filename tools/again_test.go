package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each package of a made-up module begins with this: first reports whether it is called for the
// first time with a word, in all runs.
const head = `package %s

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

var _, _ = fmt.Print, sync.OnceFunc

func first(word string) bool {
	f, err := os.OpenFile(word, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}
`

// Tests of made-up modules.
const (
	passes = `
func TestPasses(t *testing.T) {}`
	flaky = `
func TestFlaky(t *testing.T) { if first("flaky") { t.Error("late") } }`
	fails = `
func TestFails(t *testing.T) { t.Error("always") }`
	hangs = `
func TestHangs(t *testing.T) { if first("hangs") { select {} } }`
)

// A test that fails and passes when it is run once more is named. Whatever else went wrong is a
// failure: no package passes of which one test has not.
func TestRunAgain(t *testing.T) {
	for name, c := range map[string]struct {
		packages []string // the tests in each of them
		flags    string
		flaky    string // what is named, "" if the run fails
	}{
		"passes":      {[]string{passes}, "", "nothing"},
		"fails once":  {[]string{passes + flaky}, "", "TestFlaky"},
		"fails twice": {[]string{passes + flaky + fails}, "", ""},
		"odd names": {[]string{flaky + `
func TestÄ(t *testing.T) { t.Run("a b/c|(d.*é\"$'\\", func(t *testing.T) { if first("a") { t.Error("late") } }) }`},
			"", "TestFlaky|TestÄ"},
		"an example": {[]string{flaky + `
func Example() {
	fmt.Println(first("example"))
	// Output: false
}`}, "", "TestFlaky|Example"},
		"a second package fails": {[]string{flaky, fails}, "", ""},
		"a second one passes":    {[]string{flaky, flaky + passes, passes}, "", "TestFlaky,TestFlaky"},

		"hangs once":  {[]string{passes + flaky + hangs}, "", "TestFlaky|TestHangs"},
		"hangs twice": {[]string{strings.Replace(hangs, `first("hangs")`, "true", 1)}, "", ""},
		"what was to come fails": {[]string{passes, hangs + `
func TestPasses(t *testing.T) { t.Error("always") }`}, "", ""},

		"panics": {[]string{flaky + `
func TestPanics(t *testing.T) { if first("panics") { panic("once") } }`}, "", ""},
		"panics behind a word": {[]string{flaky + `
func TestPanics(t *testing.T) { fmt.Print("a word"); if first("panics") { go panic("once"); select {} } }`}, "", ""},
		"a fatal error": {[]string{flaky + `
func TestFatal(t *testing.T) { var mu sync.Mutex; if first("fatal") { mu.Unlock() } }`}, "", ""},
		"exits": {[]string{flaky + `
func TestExits(t *testing.T) { if first("exits") { os.Exit(1) } }`}, "", ""},
		"exits in the end": {[]string{flaky + `
func TestMain(m *testing.M) { m.Run(); if first("leaks") { fmt.Println("a leak"); os.Exit(1) } }`}, "", ""},
		"is killed": {[]string{flaky + `
func TestKilled(t *testing.T) { if first("killed") { p, _ := os.FindProcess(os.Getpid()); p.Kill(); select {} } }`},
			"", ""},
		"the run is killed": {[]string{flaky, `
func TestKills(t *testing.T) { if first("kills") { p, _ := os.FindProcess(os.Getppid()); p.Kill() } }`, fails}, "", ""},
		"does not build": {[]string{flaky, `
func TestB(t *testing.T) { x }`}, "", ""},

		"fails behind a word": {[]string{flaky + `
func TestWord(t *testing.T) { fmt.Print("a word"); t.Fail() }`}, "", ""},
		"exits behind a word": {[]string{flaky, `
func TestExits(t *testing.T) { fmt.Print("a word"); if first("exits") { os.Exit(1) } }`}, "", ""},
		"says what is no text": {[]string{flaky + `
func TestZero(t *testing.T) { fmt.Print("\x00\xff\r\n\x00"); if first("zero") { t.Error("late") } }`},
			"", "TestFlaky|TestZero"},
		"says what is no text, and fails": {[]string{flaky, `
func TestZero(t *testing.T) { fmt.Print("\x00\xff\r\n\x00"); t.Fail() }` + fails}, "", ""},
		"says ok": {[]string{fails + `
func TestOK(t *testing.T) { fmt.Println("ok  \tm/other\t0.1s") }` + flaky}, "", ""},
		"needs a flag": {[]string{flaky, `
func TestTag(t *testing.T) { if tagged { t.Error("always") } }`}, "-tags=odd", ""},
		"is skipped": {[]string{flaky + `
func TestSkips(t *testing.T) { t.Skip() }`}, "", ""},
		"is skipped behind a word": {[]string{passes + `
func TestSkips(t *testing.T) { fmt.Print("a word"); t.SkipNow() }`}, "", ""},
		"is skipped behind a word beside a flaky one": {[]string{flaky + `
func TestSkips(t *testing.T) { fmt.Print("a word"); if first("skips") { t.SkipNow() } }`}, "", ""},
		"is skipped in the end": {[]string{`
func TestSkips(t *testing.T) { if first("skips") { t.Error("late") }; t.Skip() }`}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			module := t.TempDir()
			write(t, filepath.Join(module, "go.mod"), "module made.up/m\n\ngo 1.26.0\n")
			for i, code := range c.packages {
				of := fmt.Sprintf("p%d", i)
				write(t, filepath.Join(module, of, "all_test.go"), fmt.Sprintf(head, of)+code)
				for _, odd := range []string{"", "!"} {
					text := fmt.Sprintf("//go:build %sodd\n\npackage %s\n\nconst tagged = %t\n", odd, of, odd == "")
					write(t, filepath.Join(module, of, fmt.Sprintf("odd%d_test.go", len(odd))), text)
				}
			}
			run := exec.CommandContext(t.Context(), "bash", "-c",
				`source <(sed -n '/^[a-z]*() {$/,/^}$/p' scripts/programs.sh scripts/test.sh); tested "$1"`, "-", module)
			run.Dir = ".."
			run.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "AGAIN=1", "limit=10s", "flags="+c.flags,
				"folder="+t.TempDir())
			out, err := run.CombinedOutput()
			var named []string
			for line := range strings.Lines(string(out)) {
				if rest, is := strings.CutPrefix(line, "FLAKY: "); is {
					names, _, _ := strings.Cut(rest, " of ")
					named = append(named, names)
				}
			}
			got := strings.Join(named, ",")
			switch {
			case err != nil:
				got = ""
			case got == "":
				got = "nothing"
			}
			if got != c.flaky { // what it says must not look like a result of this test
				t.Errorf("%v, and it names %q, want %q:\n%s", err, got, c.flaky, strings.ReplaceAll(string(out), "--- ", "... "))
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
