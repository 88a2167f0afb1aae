package doctor

import (
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// Group is what is known of a quorum group.
type Group struct {
	Nodes []admin.NodeInfo // in the order in which they are named
	// Later is the same a few seconds later, for how fast clocks go. It may be empty.
	Later []admin.NodeInfo
	TTL   time.Duration // that clients use
	// MaxTTL is that of the clients. 0 if it is not said: then whatever the servers have
	// recorded is right, as long as it is the same.
	MaxTTL time.Duration
}

// Finding is something that a person should know, of some nodes or, where there are
// none, of all of them together.
type Finding struct {
	Nodes []string
	node.Finding
}

// report takes a finding of nodes, or of the group if there are none.
type report func(f node.Finding, nodes ...string)

// sameServer returns the first node before i that leads to the same server, or -1.
func (g Group) sameServer(i int) int {
	server := g.Nodes[i].Examination.Server
	return slices.IndexFunc(g.Nodes[:i], func(other admin.NodeInfo) bool {
		return server != "" && other.Examination.Server == server
	})
}

// own returns the nodes as this client names them, nil if that is not known.
func (g Group) own() (members []string) {
	for _, info := range g.Nodes {
		if info.Examination.Member == "" {
			return nil
		}
		members = append(members, info.Examination.Member)
	}
	slices.Sort(members)
	return members
}

// otherMembers reports whether a node has recorded other members than this client names, so that it
// refuses the client. A group of one may be named by any address.
func (g Group) otherMembers(info admin.NodeInfo) bool {
	own := g.own()
	recorded := admit.Terms{Members: strings.Join(info.Examination.Members, " ")}
	return own != nil && recorded.Check(admit.Terms{Members: strings.Join(own, " ")}) != nil
}
