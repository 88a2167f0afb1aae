package ui

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// Source is where the page has from what it shows. It is safe for concurrent use.
type Source interface {
	// Nodes tells how each node of the group does, in order. It returns soon: a node that
	// hangs is not waited for.
	Nodes(ctx context.Context) []Node
	// Locks returns the first locks with a prefix, as admin.Admin.List does.
	Locks(ctx context.Context, prefix string, limit int) (admin.Page, error)
	// Inspect and ForceRelease are as admin.Admin has them.
	Inspect(ctx context.Context, name string) (admin.LockInfo, error)
	ForceRelease(ctx context.Context, name string) (admin.Broken, error)
}

// Node is how one node does.
type Node struct {
	Name string // as fenlock.Node.String has it
	doctor.Standing
	Advice    string        // what to do if it does not vote, "" if that is not known
	RoundTrip time.Duration // of one question; 0 if it is not known
	Note      string        // what else there is to say, in a few words
}
