package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A user is somebody outside of this repository, to whom a clone with tags is what
// the forge will have. The go command fetches modules from it as it does from the
// forge, by git: it is git that is told another address. All else comes from the
// module cache of whoever runs this, as far as it is there.
type user struct {
	home    string
	env     []string
	forge   *tree
	version string
}

func newUser(home string, forge *tree, version string) (*user, error) {
	path := forge.modules[0].path()
	config := fmt.Sprintf("[url %q]\n\tinsteadOf = https://%s\n[safe]\n\tdirectory = *\n", "file://"+forge.root, path)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(home, "gitconfig"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	known, err := run("", nil, "go", "env", "GOMODCACHE", "GOPROXY", "GOCACHE")
	if err != nil {
		return nil, err
	}
	cache := lines(known)
	ours := path + "," + path + "/*"
	return &user{home, []string{
		"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"),
		"GIT_CONFIG_GLOBAL=" + filepath.Join(home, "gitconfig"), "GIT_CONFIG_NOSYSTEM=1",
		"GOENV=off", "GOWORK=off", "GOTOOLCHAIN=local", "GOFLAGS=-modcacherw -trimpath",
		// Versions that are tried here must not stay in anybody's module cache.
		"GOMODCACHE=" + filepath.Join(home, "mod"), "GOPATH=" + filepath.Join(home, "go"), "GOBIN=" + filepath.Join(home, "bin"),
		"GOCACHE=" + cache[2],
		"GOPROXY=file://" + filepath.ToSlash(cache[0]) + "/cache/download," + cache[1],
		"GONOPROXY=" + ours, "GONOSUMDB=" + ours, "GOPRIVATE=", "GOSUMDB=off",
		"CGO_ENABLED=0", "GOOS=", "GOARCH=", "GOAMD64=", "GOARM64=", "GOEXPERIMENT=",
	}, forge, version}, nil
}

// program makes a module that requires nothing.
func (u *user) program(name string) (dir string, err error) {
	dir = filepath.Join(u.home, "programs", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	_, err = run(dir, u.env, "go", "mod", "init", "example.com/"+name)
	return dir, err
}

// gets does what "go get" of a module does, and imports every package of it.
func (u *user) gets(dir, version string, m module) error {
	if _, err := run(dir, u.env, "go", "get", m.path()+"@"+version); err != nil {
		return err
	}
	return u.imports(dir, m)
}

func (u *user) imports(dir string, m module) error {
	out, err := run(dir, u.env, "go", "list", "-f", "{{.ImportPath}} {{.Name}} {{.Module.Path}}", m.path()+"/...")
	if err != nil {
		return err
	}
	source := "package program\n"
	imports := 0
	for _, line := range lines(out) {
		f := strings.Fields(line)
		if len(f) == 3 && f[2] == m.path() && f[1] != "main" && !strings.Contains(f[0]+"/", "/internal/") {
			source += fmt.Sprintf("\nimport _ %q", f[0])
			imports++
		}
	}
	if imports == 0 {
		return errors.New("there is no package to import")
	}
	if err := os.WriteFile(filepath.Join(dir, "program.go"), []byte(source+"\n"), 0o644); err != nil {
		return err
	}
	_, err = run(dir, u.env, "go", "build", ".")
	return err
}

// has checks that a program got no other version of the modules than the one to be released.
func (u *user) has(dir string) error {
	out, err := run(dir, u.env, "go", "list", "-m", "all")
	if err != nil {
		return err
	}
	for _, line := range lines(out) {
		if f := strings.Fields(line); u.forge.sibling(f[0]) && !slices.Equal(f[1:], []string{u.version}) {
			return fmt.Errorf("%s is there instead of %s", line, u.version)
		}
	}
	return nil
}

// library gets one module in a program of its own.
func (u *user) library(m module) error {
	dir, err := u.program("with-" + filepath.Base(m.path()))
	if err != nil {
		return err
	}
	return errors.Join(u.gets(dir, u.version, m), u.has(dir))
}

// installs gets a command, and tries it.
func (u *user) installs(m module) error {
	if _, err := run(u.home, u.env, "go", "install", m.path()+"@"+u.version); err != nil {
		return err
	}
	name := filepath.Join(u.home, "bin", filepath.Base(m.path()))
	if err := says(name, u.env, u.version, "version"); err != nil {
		return err
	}
	return says(name, u.env, "it holds", "run", "hello", "--", "echo", "it holds")
}

// says checks that a command prints something.
func says(name string, env []string, wanted string, args ...string) error {
	out, err := run("", env, name, args...)
	if err == nil && !strings.Contains(out, wanted) {
		err = fmt.Errorf("%s %s printed %q instead of %q", name, strings.Join(args, " "), out, wanted)
	}
	return err
}

// readme builds the program of README.md.
func (u *user) readme() error {
	text, err := os.ReadFile(filepath.Join(u.forge.root, "README.md"))
	if err != nil {
		return err
	}
	_, source, _ := strings.Cut(string(text), "\n```go\npackage main\n")
	source, _, ok := strings.Cut("package main\n"+source, "\n```\n")
	if !ok {
		return errors.New("README.md has no Go program any more: what is to be built?")
	}
	dir, err := u.program("readme")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "main.go")
	if err := os.WriteFile(name, []byte(source+"\n"), 0o644); err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	get := []string{"get"}
	for _, i := range parsed.Imports {
		if p, _ := strconv.Unquote(i.Path.Value); u.forge.sibling(p) {
			get = append(get, p+"@"+u.version)
		}
	}
	for _, args := range [][]string{get, {"mod", "tidy"}, {"build", "-o", os.DevNull, "."}} {
		if _, err := run(dir, u.env, "go", args...); err != nil {
			return err
		}
	}
	return u.has(dir)
}

// upgrades takes a program that uses an older version of a module to this one: first
// the root module alone, unless that is said to be incompatible.
func (u *user) upgrades(m module, old string, alone bool) error {
	dir, err := u.program("upgrades-" + filepath.Base(m.path()))
	if err != nil {
		return err
	}
	if err := u.gets(dir, old, m); err != nil {
		return err
	}
	if root := u.forge.modules[0]; alone && m.dir != root.dir {
		if _, err := run(dir, u.env, "go", "get", root.path()+"@"+u.version); err != nil {
			return err
		}
		if err := u.imports(dir, m); err != nil {
			return fmt.Errorf("with the root module's %s alone: %w", u.version, err)
		}
	}
	return errors.Join(u.gets(dir, u.version, m), u.has(dir))
}

// clones builds a clone of the tag without the workspace, as a distribution does: what
// a clone's go.sum files say has to be right. Tests have to be complete there, too.
func (u *user) clones(dir string) error {
	if err := u.checkout(dir); err != nil {
		return err
	}
	for _, m := range u.forge.released() {
		if _, err := run(filepath.Join(dir, m.dir), u.env, "go", "list", "-mod=readonly", "-deps", "-test", "-f", "{{with .Error}}{{.}}{{end}}", "./..."); err != nil {
			return fmt.Errorf("in a clone, %s with GOWORK=off: %w", m.dir, err)
		}
	}
	return nil
}
