package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// alone are the flags of go that take no argument.
var alone = []string{"-v", "-race", "-short", "-json", "-update", "-n", "-x", "-c", "-cover", "-w"}

// asGo checks which packages and tests a command of go names.
func (l *lines) asGo(args []string, part bool) string {
	if !slices.Contains([]string{"run", "test", "vet", "build"}, args[0]) {
		return ""
	}
	var packages []string
	asked := make(map[string]string)
	for i := 1; i < len(args); i++ {
		arg := args[i]
		name, value, has := strings.Cut(arg, "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
			packages = append(packages, arg)
		case has:
			asked[strings.TrimPrefix(name, "-")] = value
		case !slices.Contains(alone, arg) && i+1 < len(args):
			i++
			asked[strings.TrimPrefix(arg, "-")] = args[i]
		}
		if args[0] == "run" && len(packages) == 1 {
			if slices.Contains([]string{"./cmd/fenlock", "./cmd/fenlock/fenlock-all"}, packages[0]) && i+1 < len(args) {
				return l.asFenlock(args[i+1:], part)
			}
			break // what follows is the program's
		}
	}
	for _, p := range packages {
		if strings.Contains(p, "@") {
			continue // from elsewhere, in a version
		}
		if len(l.folders(p)) == 0 {
			return fmt.Sprintf("there is no package %s", p)
		}
	}
	for flag, kind := range map[string]string{"run": "Test|Example|Fuzz", "bench": "Benchmark", "fuzz": "Fuzz"} {
		pattern, ok := asked[flag]
		if !ok || flag == "run" && asked["bench"]+asked["fuzz"] != "" {
			continue // with a -run that matches no test, so that only the benchmarks are run
		}
		pattern, _, _ = strings.Cut(pattern, "/")
		if complaint := l.anyTest(pattern, kind, packages); complaint != "" {
			return complaint
		}
	}
	return ""
}

// anyTest looks for a test that a pattern chooses, in the packages. A document tells
// in words which folder "." is: then it may be any.
func (l *lines) anyTest(pattern, kind string, packages []string) string {
	choose, err := regexp.Compile(strings.ReplaceAll(pattern, `\|`, "|"))
	if err != nil {
		return err.Error()
	}
	kinds := regexp.MustCompile("^(" + kind + ")")
	for _, t := range l.tests.all {
		if !kinds.MatchString(t.name) || !choose.MatchString(t.name) {
			continue
		}
		if len(packages) == 0 {
			return ""
		}
		for _, p := range packages {
			if p == "." || slices.Contains(l.folders(p), t.folder) || strings.HasSuffix(p, "...") {
				return ""
			}
		}
	}
	return fmt.Sprintf("no %s of %s matches %s", kind, strings.Join(packages, " "), pattern)
}

// folders returns where a package may be: below the root, or below one of its modules.
func (l *lines) folders(p string) []string {
	var all []string
	p = strings.TrimSuffix(strings.TrimSuffix(p, "..."), "/")
	for _, module := range l.tests.modules {
		dir := filepath.Join(module, filepath.FromSlash(p))
		if files, err := filepath.Glob(filepath.Join(l.root, dir, "*.go")); err == nil && len(files) > 0 {
			all = append(all, dir)
		}
	}
	return all
}
