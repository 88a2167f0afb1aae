// Command release makes a release of all modules of this repository, and tries one.
//
//	release version VERSION     names VERSION in every go.mod, go.sum, go.work and CHANGELOG.md
//	release check [VERSION]     tries a release of the files as they are, and changes nothing
//	release make VERSION FOLDER checks the commit, tags it here, and writes what is published into FOLDER
//
// docs/releasing.md says when to use which. Read it from here: tree.go has the modules,
// prepare.go the version in files, user.go what a user does with a release, api.go the
// exported names, dist.go what is published.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	what, rest := "", []string(nil)
	if len(args) > 0 {
		what, rest = args[0], args[1:]
	}
	if len(rest) > 0 && rest[0] == "" {
		return errors.New("which version? make ... VERSION=v0.1.0")
	}
	if len(rest) > 0 && semver.Canonical(rest[0]) != rest[0] {
		return fmt.Errorf("%s is no version: one is v0.1.0 or v0.1.0-rc.1", rest[0])
	}
	root, err := run("", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	t, err := load(root)
	if err != nil {
		return err
	}
	switch {
	case what == "version" && len(rest) == 1:
		if err := t.prepare(rest[0], time.Now(), true); err != nil {
			return err
		}
		fmt.Printf("All modules name %s now. Read \"git diff\", and commit all of it, new files too.\n", rest[0])
		return nil
	case what == "check" && len(rest) == 0:
		return check(t, "")
	case what == "check" && len(rest) == 1:
		return check(t, rest[0])
	case what == "make" && len(rest) == 2:
		return release(t, rest[0], rest[1])
	}
	return errors.New("usage: release version VERSION, release check [VERSION], release make VERSION FOLDER")
}
