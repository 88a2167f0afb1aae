//go:build linux || darwin || freebsd

package filenode

import (
	"os"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

var _ node.Binder = (*Node)(nil)

// Bind has what this node grants from now on last as long as this process, instead of by time.
// Nothing has to be extended, and nothing is lost by a process that is stopped or a machine that is
// suspended. A process that is started with the file that Bind returns (exec.Cmd.ExtraFiles) keeps
// the leases too, until it ends or closes that file. Give it to whatever must not go on without the
// lock. The file is open for reading only. A release ends a lease, whichever processes have
// inherited it; Close does not, and leaves the file open then.
//
// It is called once, before the node is used. The error matches errors.ErrUnsupported where the
// kernel has no such locks: on macOS and FreeBSD. After an error, leases are by time, as before.
func (n *Node) Bind() (*os.File, error) {
	err := engine.ErrClosed
	if !n.isClosed() {
		err = n.bound.open(n.real, n.place)
	}
	if err != nil {
		return nil, n.errorf("bind", err)
	}
	return n.bound.alive, nil
}

// Binds implements node.Binder.
func (n *Node) Binds() bool { return n.bound.binds() }

// bury takes what is bound to processes that have ended from all names of a room. Some are never
// asked for again, as those with a date in them.
func (n *Node) bury(r *room, now time.Duration) {
	for name, l := range r.Leases {
		if l.Expires == rule.Bound {
			o := r.Begin(name, now, nil)
			o.Ended(now, n.bound.lives)
			o.Commit()
		}
	}
}
