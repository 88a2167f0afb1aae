//go:build unix

package secretfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// open does not wait for a pipe's other end: that is no regular file anyway.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// check refuses a file that is not kept to those who may know it. The rule is
// PostgreSQL's for the key of a server.
func check(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: it cannot be told who may read it", path)
	}
	return checkOwner(path, info.Mode().Perm(), int(stat.Uid), os.Geteuid())
}

func checkOwner(path string, mode fs.FileMode, owner, user int) error {
	others := fs.FileMode(0o077)
	switch {
	case owner == user:
	case owner == 0:
		// Root has chosen the group. An access list of systemd's shows as its bits.
		others = 0o037
	default:
		return fmt.Errorf(
			"%s belongs to user %d, who may change it: it must belong to the user who runs this (%d) or to root", path, owner,
			user)
	}
	if mode&others != 0 {
		return fmt.Errorf("%s has secrets, and others than its owner may open it (mode %04o): chmod 600 %s", path, mode, path)
	}
	return nil
}
