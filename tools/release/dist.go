package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	modver "golang.org/x/mod/module"
)

// targets are what the command is built for: it supervises processes by means that
// other systems do not have. Those with a Debian package are called alike there.
var targets = []struct {
	os, arch string
	deb      bool
}{
	{"linux", "amd64", true},
	{"linux", "arm64", true},
	{"darwin", "amd64", false},
	{"darwin", "arm64", false},
	{"freebsd", "amd64", false},
}

// The bill of materials is of a version that go.sum of nobody has: the checksum
// database vouches for it. As a tool of this module it would bring 200 libraries.
const cyclonedx = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// build builds the command as users do who get all modules in their released versions,
// so that the workspace is not in it, and from a clone, so that the commit is.
func (u *user) build(clone, goos, arch, to string) error {
	env := append(append([]string(nil), u.env...), "GOOS="+goos, "GOARCH="+arch)
	_, err := run(filepath.Join(clone, "cmd", "fenlock"), env, "go", "build", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", to, ".")
	return err
}

// checkout clones the tag.
func (u *user) checkout(dir string) error {
	_, err := run(u.home, u.env, "git", "clone", "-q", "--branch", u.version, "https://"+u.forge.modules[0].path(), dir)
	return err
}

// dist writes what is published into a new folder.
func (u *user) dist(clone, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	built := clone + "-built" // beside the clone, which has to stay clean
	seconds, err := run(clone, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	when := time.Unix(n, 0).UTC()
	host := filepath.Join(built, "host")
	if err := u.build(clone, runtime.GOOS, runtime.GOARCH, host); err != nil {
		return err
	}
	common, err := u.documents(clone, host, built)
	if err != nil {
		return err
	}
	for _, target := range targets {
		program := filepath.Join(built, target.os, target.arch, "fenlock")
		if err := u.build(clone, target.os, target.arch, program); err != nil {
			return err
		}
		name := fmt.Sprintf("fenlock-%s-%s-%s", u.version, target.os, target.arch)
		licenses, err := u.licenses(program)
		if err != nil {
			return err
		}
		files := append([]entry{{"fenlock", 0o755, program, nil}, {"THIRD_PARTY_LICENSES", 0o644, "", licenses}}, common...)
		if err := archive(filepath.Join(to, name+".tar.gz"), name, files, when); err != nil {
			return err
		}
		if _, err := run("", []string{"GOWORK=off", "GOFLAGS="}, "go", "run", cyclonedx, "bin", "-json", "-std", "-noserial", "-notimestamp", "-output", filepath.Join(to, name+".cdx.json"), program); err != nil {
			return err
		}
		if target.deb {
			if err := u.deb(clone, to, target.arch, files, when); err != nil {
				return err
			}
		}
	}
	log, err := os.ReadFile(filepath.Join(clone, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "NOTES.md"), []byte(section(string(log), u.version)), 0o644); err != nil {
		return err
	}
	sums, err := checksums(to)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "SHA256SUMS"), []byte(sums), 0o644)
}

// documents are what is the same for all systems: what the command writes of itself.
func (u *user) documents(clone, program, to string) ([]entry, error) {
	if err := says(program, u.env, u.version, "version"); err != nil {
		return nil, err
	}
	man := filepath.Join(to, "man")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return nil, err
	}
	if _, err := run("", u.env, program, "man", man); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil {
		return nil, err
	}
	files := []entry{
		{"LICENSE", 0o644, filepath.Join(clone, "LICENSE"), nil},
		{"CHANGELOG.md", 0o644, filepath.Join(clone, "CHANGELOG.md"), nil},
	}
	for _, p := range pages {
		files = append(files, entry{"man/man1/" + filepath.Base(p), 0o644, p, nil})
	}
	for _, c := range [][2]string{{"bash", "fenlock.bash"}, {"zsh", "_fenlock"}, {"fish", "fenlock.fish"}} {
		script, err := run("", u.env, program, "completion", c[0])
		if err != nil {
			return nil, err
		}
		files = append(files, entry{"completions/" + c[1], 0o644, "", []byte(script + "\n")})
	}
	return files, nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licenses are those of everything in a program but this repository's: whoever passes
// on a binary has to pass them on.
func (u *user) licenses(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	known, err := run("", u.env, "go", "env", "GOROOT", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	goroot, cache := lines(known)[0], lines(known)[1]
	type dependency struct{ name, dir string }
	all := []dependency{{"Go " + info.GoVersion, goroot}}
	for _, d := range info.Deps {
		if u.forge.sibling(d.Path) {
			if d.Version != u.version || d.Sum == "" {
				return nil, fmt.Errorf("%s %s is in the command instead of %s", d.Path, d.Version, u.version)
			}
			continue
		}
		path, err := modver.EscapePath(d.Path)
		if err != nil {
			return nil, err
		}
		all = append(all, dependency{d.Path + " " + d.Version, filepath.Join(cache, path+"@"+d.Version)})
	}
	var text strings.Builder
	for _, d := range all {
		found := false
		names, err := os.ReadDir(d.dir)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if n.IsDir() || !licenseFile.MatchString(n.Name()) {
				continue
			}
			license, err := os.ReadFile(filepath.Join(d.dir, n.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&text, "==== %s: %s\n\n%s\n", d.name, n.Name(), license)
		}
		if !found {
			return nil, fmt.Errorf("%s is in the command and has no licence that could be passed on", d.name)
		}
	}
	return []byte(text.String()), nil
}

// checksums are those of a folder's files, as sha256sum prints them.
func checksums(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var sums strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return sums.String(), nil
}
