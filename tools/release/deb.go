package main

import (
	"crypto/md5"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// deb makes a Debian package with dpkg-deb, which is wherever the tests run: a library
// for it would be a hundred modules for what is two folders and a text.
func (u *user) deb(clone, to, arch string, files []entry, when time.Time) error {
	who, err := run(clone, nil, "git", "log", "-1", "--format=%an <%ae>")
	if err != nil {
		return err
	}
	tree, err := os.MkdirTemp(u.home, "deb")
	if err != nil {
		return err
	}
	if err := os.Chmod(tree, 0o755); err != nil {
		return err
	}
	// A tilde sorts before the end: a candidate before its release.
	version := strings.Replace(strings.TrimPrefix(u.version, "v"), "-", "~", 1)
	files = append(files,
		entry{"copyright", 0o644, "", fmt.Appendf(nil, debCopyright, u.forge.modules[0].path(), when.Year())},
		entry{"changelog", 0o644, "", fmt.Appendf(nil, debChangelog, version, who, when.Format(time.RFC1123Z))})
	size, sums := 0, ""
	write := func(name string, mode os.FileMode, data []byte) error {
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, mode); err != nil {
			return err
		}
		return os.Chmod(file, mode) // whatever the umask is
	}
	for _, f := range files {
		if f.name == "LICENSE" {
			continue // Debian has it, and copyright says where
		}
		data, err := f.bytes()
		if err != nil {
			return err
		}
		name := debPlace(f.name)
		if strings.HasSuffix(name, ".gz") {
			if data, err = zipped(data); err != nil {
				return err
			}
		}
		if err := write(name, f.mode, data); err != nil {
			return err
		}
		size += (len(data) + 1023) / 1024
		sums += fmt.Sprintf("%x  %s\n", md5.Sum(data), name)
	}
	control := fmt.Sprintf(`Package: fenlock
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Section: admin
Priority: optional
Homepage: https://%s
Description: distributed lock for the shell
 fenlock runs a command while nobody else does, on any of many machines. The
 lock is on three or five Valkey or Redis servers, on PostgreSQL, MySQL, etcd or
 ZooKeeper, or in a file of this machine, with a queue and a fencing token.
`, version, arch, who, size, u.forge.modules[0].path())
	if err := write("DEBIAN/control", 0o644, []byte(control)); err != nil {
		return err
	}
	if err := write("DEBIAN/md5sums", 0o644, []byte(sums)); err != nil {
		return err
	}
	err = filepath.WalkDir(tree, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if err := os.Chmod(p, 0o755); err != nil {
				return err
			}
		}
		return os.Chtimes(p, when, when)
	})
	if err != nil {
		return err
	}
	// gzip, since xz's output depends on the number of its threads.
	_, err = run("", []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", when.Unix())}, "dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree,
		filepath.Join(to, fmt.Sprintf("fenlock_%s_%s.deb", version, arch)))
	return err
}

const debCopyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: fenlock
Source: https://%s

Files: *
Copyright: %d the authors of fenlock
License: Apache-2.0
Comment: THIRD_PARTY_LICENSES, beside this file, has those of what is linked in.

License: Apache-2.0
 On Debian systems it is in /usr/share/common-licenses/Apache-2.0.
`

const debChangelog = `fenlock (%s) unstable; urgency=medium

  * CHANGELOG.md.gz, beside this file, says what is new.

 -- %s  %s
`

// debPlace is where Debian wants a file of the archive.
func debPlace(name string) string {
	switch dir, base := filepath.Split(name); {
	case name == "fenlock":
		return "usr/bin/fenlock"
	case name == "changelog" || name == "CHANGELOG.md":
		return "usr/share/doc/fenlock/" + name + ".gz"
	case dir == "man/man1/":
		return "usr/share/man/man1/" + base + ".gz"
	case base == "fenlock.bash":
		return "usr/share/bash-completion/completions/fenlock"
	case base == "_fenlock":
		return "usr/share/zsh/vendor-completions/_fenlock"
	case base == "fenlock.fish":
		return "usr/share/fish/vendor_completions.d/fenlock.fish"
	default:
		return "usr/share/doc/fenlock/" + base
	}
}
