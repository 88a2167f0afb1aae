package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/fenlock/fenlock/fence"
)

// file is a file that is never written under a smaller token than before. The token is its first
// line. All who write it do it by this, and on one machine: flock(2) is not to be relied on over a
// network.
type file struct{ path string }

// write replaces the content. The error matches fence.ErrStale if a holder with a larger token has
// written before.
func (f *file) write(token fence.Token, content string) error {
	// Held for the moment between comparing and renaming only. The system releases it, also if this
	// process is killed; one that is paused in between delays others, and lets none of them go first.
	guard, err := os.OpenFile(f.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer guard.Close()
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	old, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if first, _, found := strings.Cut(string(old), "\n"); found {
		newest, err := fence.Parse(first)
		if err != nil {
			return err
		}
		if newest > token {
			return &fence.StaleError{Resource: f.path, Token: token, Newest: newest}
		}
	}
	// Written beside it and renamed, so that no reader sees half of it.
	if err := os.WriteFile(f.path+".new", fmt.Appendf(nil, "%s\n%s\n", token, content), 0o600); err != nil {
		return err
	}
	return os.Rename(f.path+".new", f.path)
}
