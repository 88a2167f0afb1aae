package fenlock_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/filecircles"
)

const module = "github.com/fenlock/fenlock"

// The shape of the code (ARCHITECTURE.md) as rules. Test files are held to
// the first two only.

// only lists everything that a package may import.
var only = []struct {
	pkg     string
	imports []string
	why     string
}{
	{"internal/core", []string{"fmt", "math/bits", "slices", "time", module + "/fence", module + "/node",
		module + "/node/rule"},
		"the algorithm has no goroutine, clock, randomness or I/O, so that shell, simulator and exhaustive check run the same code (time is there for Duration)"},
	{"node", []string{"context", "crypto/sha256", "encoding/binary", "errors", "fmt", "hash/fnv", "log/slog", "strconv",
		"strings", "time", module + "/fence"},
		"the contract of engines: whoever writes one, outside of this repository too, needs this and what it needs itself"},
	{"node/rule", []string{"cmp", "errors", "fmt", "maps", "slices", "strconv", "strings", "time", "unicode",
		"unicode/utf8", module + "/fence", module + "/node"},
		"what a node does is a pure function of its state and the time: engines run it inside their own transactions"},
	{"node/rebuild", []string{"context", "fmt", "maps", "slices", "sync", "time", module + "/fence", module + "/node"},
		"engines outside of this repository use it"},
	{"node/admit", []string{"context", "errors", "fmt", "slices", "strings", "sync", "sync/atomic", "time",
		module + "/fence", module + "/node", module + "/node/rebuild", module + "/node/rule"},
		"the one decision whether a store may vote: engines outside of this repository use it, and the simulator runs it"},
	{"node/engine", []string{"cmp", "context", "crypto/tls", "crypto/x509", "errors", "fmt", "math/rand/v2", "net",
		"net/url", "os", "slices", "strconv", "strings", "sync", "sync/atomic", "time", module + "/node",
		module + "/node/admit", module + "/node/rule", module + "/node/secretfile"},
		"what engines share, those outside of this repository too: it knows no store, and no engine"},
	{"node/cas", []string{"bytes", "context", "crypto/rand", "encoding/binary", "encoding/json", "errors", "fmt", "maps",
		"math/rand/v2", "slices", "strconv", "strings", "sync", "time", module + "/fence", module + "/node",
		module + "/node/admit", module + "/node/clock", module + "/node/engine", module + "/node/rule"},
		"the engine of stores with compare-and-swap has no I/O: adapters have it, those outside of this repository too"},
	{"node/clock", []string{"syscall", "time", "unsafe"},
		"a clock knows nothing of locks"},
	{"node/clock/boot", []string{"errors", "fmt", "os", "runtime", "strings"},
		"nor does a boot; and the watchdog, which has the clock, does without what this needs"},
	{"cmd/fenlock/internal/watchdog",
		[]string{"errors", "io", "os", "os/signal", "runtime", "strconv", "sync", "syscall", "time",
			module + "/cmd/fenlock/internal/caught", module + "/cmd/fenlock/internal/execvp",
			module + "/cmd/fenlock/internal/processes", module + "/node/clock"},
		"what it imports is initialised before it runs, and so is all that is ready by then, in the order of paths: with net, fmt or strings that is most of the program"},
	{"cmd/fenlock/internal/processes", []string{"os", "runtime", "slices", "strconv", "syscall"},
		"the watchdog imports it"},
	{"cmd/fenlock/internal/execvp", []string{"syscall"},
		"the watchdog imports it"},
	{"cmd/fenlock/internal/caught", []string{"os", "os/signal", "slices", "sync", "sync/atomic", "syscall", "unsafe"},
		"the watchdog imports it"},
	{"internal/check", []string{"fmt", "slices", "time", module + "/fence"},
		"a checker that shared code with what it checks would share its mistakes"},
	{"internal/proof/trace",
		[]string{"fmt", "slices", "strings", "sync", module + "/internal/proof/model", module + "/proof"},
		"what evaluates the code's steps by the models shares nothing with the code"},
}

// never lists what a package and those below it must not import: a path, or
// with /... all below it.
var never = []struct {
	pkg     string
	imports []string
	why     string
}{
	{".", []string{module + "/node/memnode", module + "/nodetest", module + "/internal/sim"},
		"a program gets the engines that it names, and no others"},
	{".", []string{"net", "net/...", "os/exec", "database/sql", "plugin", "C"},
		"only nodes do I/O: the shell has goroutines and timers, nothing else"},
	{".", []string{"testing", "testing/..."},
		"a program that locks must not register the flags of go test"},
	{"fence", []string{module, module + "/internal/...", module + "/node/..."},
		"a service that only checks tokens needs neither nodes nor locks"},
	{"node/respnode/internal/command", []string{"net", "net/...", "os", module + "/node/respnode/internal/..."},
		"what is said to a server, and what it means, is decided without I/O"},
	{"node/respnode/internal/admission", []string{"net", "net/...", "os", module + "/node/respnode/internal/pipeline"},
		"whether a server may vote is asked by whoever carries requests: the connection is an interface there"},
	{"node/respnode/internal/examine", []string{"net/http", module + "/node/respnode/internal/pipeline"},
		"what is wrong with a server is decided without I/O"},
	{"node/respnode", []string{"net/http", module + "/internal/..."},
		"the engine of released modules: the connection is a resp.Link"},
	{"node/memnode", []string{"net", "net/...", "os", "syscall"},
		"a node in memory has no outside"},
}

// imported is what one file imports.
type imported struct {
	file, pkg string
	test      bool
	paths     []string
}

// rootModule returns the imports of all files of the root module.
func rootModule(t *testing.T) []imported {
	t.Helper()
	all := importsOf(t, ".")
	if len(all) < 20 {
		t.Fatalf("only %d files were found: the test does not see the module", len(all))
	}
	return all
}

// importsOf returns the imports of all files of the module in a directory, whatever
// their build tags. Directories with a go.mod of their own are other modules.
func importsOf(t *testing.T, dir string) []imported {
	t.Helper()
	var all []imported
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := p != dir && strings.ContainsAny(d.Name()[:1], "._")
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != dir || hidden || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		i := imported{file: p, pkg: path.Dir(filepath.ToSlash(p)), test: strings.HasSuffix(p, "_test.go")}
		for _, spec := range f.Imports {
			s, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			i.paths = append(i.paths, s)
		}
		all = append(all, i)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// neverReleased are the modules that are used from a checkout only.
var neverReleased = []string{"tests", "bench", "tools", filepath.Join("tools", "etcd"),
	filepath.Join("tools", "versitygw"), filepath.Join("tools", "nats"), filepath.Join("deploy", "check"), "examples"}

// A released module is used with any later version of the root module. What it imports of that must
// not change under it, and only what is public does not.
func TestReleasedModulesImportNothingInternal(t *testing.T) {
	var released []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if dir := filepath.Dir(p); err == nil && d.Name() == "go.mod" && dir != "." && !slices.Contains(neverReleased, dir) &&
			!strings.Contains(p, "testdata") {
			released = append(released, dir)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"node/pgnode", "node/valkeynode", "node/goredisnode", "node/zknode", "node/mysqlnode",
		"node/etcdnode", "node/bucketnode", "node/natsnode", "fence/fencepgx", "integration/fenlockcertmagic",
		"integration/fenlockcron", "integration/fenlockgocron",
		"integration/fenlockgoose", "integration/fenlockmigrate", "integration/fenlockotel", "cmd/fenlock"} {
		if !slices.Contains(released, filepath.FromSlash(dir)) {
			t.Errorf("there is no module in %s: the test does not see it", dir)
		}
	}
	for _, dir := range neverReleased {
		if _, err := os.Stat(filepath.Join(dir, "CHANGELOG.md")); err == nil {
			t.Errorf("%s has a CHANGELOG.md: scripts/release.sh would release it", dir)
		}
	}
	for _, dir := range released {
		// By which scripts/release.sh knows what is released.
		if _, err := os.Stat(filepath.Join(dir, "CHANGELOG.md")); err != nil {
			t.Errorf("%s is released, and users find nothing there that tells what is new: %v", dir, err)
		}
		for _, f := range importsOf(t, dir) {
			for _, p := range f.paths {
				if !f.test && strings.HasPrefix(p, module+"/internal/") {
					t.Errorf("%s imports %s, which the next version of the root module may not have", f.file, p)
				}
			}
		}
	}
}

// The go command takes the nearest go.work. Each has to use the modules below it, and to replace
// what they require of ours, in that version. Else it would need a release that is not there yet
// or, later, silently test an old one.
func TestWorkspacesHaveEachModule(t *testing.T) {
	used := regexp.MustCompile(`(?m)^(?:use)?\s*(\.\S*)$`)
	required := regexp.MustCompile(`(?m)^(?:require)?\s*(` + module + `(?:/\S+)? v\S+)(?: // indirect)?$`)
	replaced := regexp.MustCompile(`(?m)^(?:replace)?\s*(` + module + `(?:/\S+)? v\S+) => (\S+)$`)
	read := func(elem ...string) string {
		text, err := os.ReadFile(filepath.Join(elem...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	folderOf := func(required string) string {
		name, _, _ := strings.Cut(required, " ")
		return filepath.Join(".", strings.TrimPrefix(name, module))
	}
	uses := map[string][]string{} // the folders of modules, by the folder of a workspace
	var modules []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch dir := filepath.Dir(p); {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() == "go.mod" && filepath.Dir(dir) != "tools":
			// these say why they are in none
			modules = append(modules, dir)
		case d.Name() == "go.work":
			for _, m := range used.FindAllStringSubmatch(read(p), -1) {
				uses[dir] = append(uses[dir], filepath.Join(dir, m[1]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range modules {
		nearest := dir
		for uses[nearest] == nil && nearest != "." {
			nearest = filepath.Dir(nearest)
		}
		if !slices.Contains(uses[nearest], dir) {
			t.Errorf("%s does not use the module in %s", filepath.Join(nearest, "go.work"), dir)
		}
	}
	for dir, folders := range uses {
		file, targets := filepath.Join(dir, "go.work"), map[string]string{}
		for _, m := range replaced.FindAllStringSubmatch(read(file), -1) {
			targets[m[1]] = filepath.Join(dir, m[2])
		}
		needed := map[string]bool{}
		for i := 0; i < len(folders); i++ { // it grows
			for _, m := range required.FindAllStringSubmatch(read(folders[i], "go.mod"), -1) {
				folder := folderOf(m[1])
				if needed[m[1]] = true; targets[m[1]] != folder {
					t.Errorf("%s does not replace %s, which %s requires, by the folder %s", file, m[1], folders[i], folder)
				}
				if !slices.Contains(folders, folder) {
					folders = append(folders, folder)
				}
			}
		}
		for replaced := range targets {
			if !needed[replaced] {
				t.Errorf("%s replaces %s, which nothing requires there", file, replaced)
			}
		}
	}
}

// A program that measures locks chooses what becomes of the figures. So the module has
// OpenTelemetry's API and no SDK. Its tests have none either, because go.mod does not tell those
// apart.
func TestTelemetryNeedsTheAPIOnly(t *testing.T) {
	const api = "go.opentelemetry.io/otel"
	for _, f := range importsOf(t, "integration/fenlockotel") {
		for _, p := range f.paths {
			if strings.HasPrefix(p, api) &&
				!slices.Contains([]string{api + "/attribute", api + "/codes", api + "/metric", api + "/metric/noop", api + "/trace",
					api + "/trace/noop"}, p) {
				t.Errorf("%s imports %s, which is not the API", f.file, p)
			}
		}
	}
	text, err := os.ReadFile("integration/fenlockotel/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, api+"/") && !strings.Contains(line, api+"/metric v") &&
			!strings.Contains(line, api+"/trace v") {
			t.Errorf("go.mod has the line %q", strings.TrimSpace(line))
		}
	}
}

// A program that wants a lock inherits no library, and no version conflict.
func TestRootModuleRequiresNothing(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "//") {
			continue
		}
		if !slices.Contains([]string{"module", "go", "toolchain"}, fields[0]) {
			t.Errorf("go.mod has the line %q", strings.TrimSpace(line))
		}
	}
}

// Nor do its tests, which go.mod would list as well. (The workspace hides a
// missing require from the compiler, so go.mod alone does not tell.)
func TestRootModuleImportsTheStandardLibraryOnly(t *testing.T) {
	files := rootModule(t)
	ours := map[string]bool{}
	for _, f := range files {
		ours[path.Join(module, f.pkg)] = true
	}
	for _, f := range files {
		for _, p := range f.paths {
			first, _, _ := strings.Cut(p, "/")
			if strings.Contains(first, ".") && !ours[p] {
				t.Errorf("%s imports %s, which is not in this module: the root module requires nothing", f.file, p)
			}
		}
	}
}

func TestWhoImportsWhom(t *testing.T) {
	files := slices.Concat(rootModule(t), importsOf(t, "node/valkeynode"), importsOf(t, "cmd/fenlock"))
	seen := map[string]bool{}
	for _, f := range files {
		if f.test {
			continue
		}
		seen[f.pkg] = true
		for _, rule := range only {
			for _, p := range f.paths {
				if f.pkg == rule.pkg && !slices.Contains(rule.imports, p) {
					t.Errorf("%s imports %s: %s", f.file, p, rule.why)
				}
			}
		}
		for _, rule := range never {
			// A rule for the root is for that package alone: all others are
			// below it.
			if f.pkg != rule.pkg && (rule.pkg == "." || !strings.HasPrefix(f.pkg, rule.pkg+"/")) {
				continue
			}
			for _, p := range f.paths {
				if slices.ContainsFunc(rule.imports, func(pattern string) bool { return matches(pattern, p) }) {
					t.Errorf("%s imports %s: %s", f.file, p, rule.why)
				}
			}
		}
	}
	for _, rule := range slices.Concat(only, never) {
		if !seen[rule.pkg] {
			t.Errorf("there is no package %s: the rule about it checks nothing", rule.pkg)
		}
	}
}

func matches(pattern, p string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(p, above+"/")
	}
	return p == pattern
}

// most is how many files of a package may use each other in a circle. A reader of one file of a
// circle needs all of them.
const most = 3

// TestFilesInCircles is about all packages of all modules.
func TestFilesInCircles(t *testing.T) {
	packages := map[string]bool{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || p != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go"):
			packages[filepath.Dir(p)] = true
		}
		return nil
	})
	if err != nil || len(packages) < 90 {
		t.Fatalf("%d packages, %v", len(packages), err)
	}
	for pkg := range packages {
		found, uses, err := filecircles.Circles(pkg)
		if err != nil {
			t.Errorf("%s: %v", pkg, err)
			continue
		}
		for _, files := range found {
			if len(files) <= most {
				continue
			}
			t.Errorf("%s: %s use each other in a circle:", pkg, strings.Join(files, ", "))
			for _, a := range files {
				for _, b := range files {
					if names := uses[[2]string{a, b}]; names != nil {
						t.Errorf("    %s uses %s of %s", a, strings.Join(names, ", "), b)
					}
				}
			}
		}
	}
}

// CONTRIBUTING.md tells newcomers which file to change for what, and which word to look for in it.
func TestPlacesToChange(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Where to change what")
	table, _, _ = strings.Cut(table, "\n## ")
	places := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "](") {
			continue
		}
		word := strings.Trim(cells[3], " `")
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(cells[2], -1) {
			places++
			if !says(t, link[1], word) {
				t.Errorf("%s: %q is not in %s", strings.TrimSpace(cells[1]), word, link[1])
			}
		}
	}
	if places < 15 {
		t.Errorf("%d places were found", places)
	}
}

// says reports whether a word is in a file, or in one of a folder.
func says(t *testing.T, name, word string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(name, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		found = found || strings.Contains(string(text), word)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}
