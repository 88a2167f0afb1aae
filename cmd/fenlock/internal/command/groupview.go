//go:build linux || darwin || freebsd

package command

import (
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/node"
)

// groupView is a group as it is shown.
type groupView struct {
	at     time.Time
	nodes  []nodeView
	need   int // a quorum
	usable int // that answer for a lock
}

// nodeView is a node of it.
type nodeView struct {
	admin.NodeInfo
	doctor.Standing
}

func view(g doctor.Group) groupView {
	v := groupView{at: time.Now(), need: node.Quorum(len(g.Nodes))}
	for i, s := range g.Standings() {
		v.nodes = append(v.nodes, nodeView{g.Nodes[i], s})
		if s.Usable() {
			v.usable++
		}
	}
	return v
}
