package fenlockterraform

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fenlock/fenlock"
)

// ErrConflict: a record was not stored, because the one that it was made from is not the newest any more.
var ErrConflict = errors.New("fenlockterraform: another server has written the record")

// Record is a state, and the lock on it.
type Record struct {
	Version  uint64   // of the record, from 1; 0: there is none yet
	State    []byte   // as it was sent; empty: there is none
	Lock     []byte   // the holder's LockInfo, as it was sent; empty: nobody has locked it
	LockID   string   // the ID in Lock
	Released []string // the last LockIDs that were unlocked, the newest last
}

// Store keeps a record for each name, as a Handler lets it through. It is safe for concurrent use, by several processes. Dir is one.
type Store interface {
	// Load returns the newest record, and the zero Record for a name that was never stored. The caller does not change what it
	// points to.
	Load(ctx context.Context, name string) (Record, error)
	// Save puts a record in the place of the one whose Version is one less. If that is not the newest, whatever clocks and
	// pauses say, nothing is changed and the error matches ErrConflict. Nil means that the record survives a crash.
	Save(ctx context.Context, name string, r Record) error
}

const maxName = 200 // bytes

// checkName refuses what is not the name of a state.
func checkName(name string) error {
	bad := len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/", r)
	})
	for segment := range strings.SplitSeq(name, "/") {
		bad = bad || segment == "" || segment == "." || segment == ".."
	}
	if bad {
		return fmt.Errorf("%w: %.40q is no name of a state: up to %d letters, digits, dots, hyphens and underscores, with slashes between", fenlock.ErrInvalid, name, maxName)
	}
	return nil
}
