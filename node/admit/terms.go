package admit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Terms are what all clients of a group agree on. They are recorded in each store with its first
// admission. The zero Terms are those of a store that has none recorded.
type Terms struct {
	MaxTTL time.Duration // the longest lease of the group, whole milliseconds
	// Members are the nodes of the group as its clients name them, separated by spaces, in any
	// order; AnyMembers if the operator answers for them.
	Members string
}

// AnyMembers is the record of a store whose clients name the nodes in different ways.
const AnyMembers = "*"

// TermsOf returns the terms of the clients of a group.
func TermsOf(g node.Group) Terms {
	names := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		names[i] = unspaced.Replace(Member(n))
	}
	slices.Sort(names)
	return Terms{MaxTTL: g.MaxTTL.Truncate(time.Millisecond), Members: strings.Join(names, " ")}
}

// unspaced lets names be separated by spaces.
var unspaced = strings.NewReplacer(" ", "%20", "\t", "%09", "\n", "%0A", "\r", "%0D")

// Member returns what all clients of a group call a node: the engine's Member, or else its String.
func Member(n node.Node) string {
	if named, ok := n.Engine().(interface{ Member() string }); ok {
		return named.Member()
	}
	return n.String()
}

// Check returns nil if a client with its own terms may use a store that has these recorded. With
// another MaxTTL the client would let a store vote before forgotten leases have ended; with other
// members, two majorities need not have a node in common. The error is a *TermsError, which matches
// node.ErrMisconfigured.
//
// A group of one is agreed on by whatever name its clients call the node: the record is in that
// very store.
func (t Terms) Check(own Terms) error {
	if t == own || t == (Terms{}) {
		return nil
	}
	if t.MaxTTL != 0 && t.MaxTTL != own.MaxTTL {
		return &TermsError{Recorded: t, Own: own}
	}
	recorded, named := t.members(), own.members()
	if len(recorded) == 0 || t.Members == AnyMembers || len(recorded) == 1 && len(named) == 1 ||
		slices.Equal(recorded, named) {
		return nil
	}
	return &TermsError{Recorded: t, Own: own}
}

func (t Terms) members() []string { return slices.Sorted(strings.FieldsSeq(t.Members)) }

// TermsError is the error for a client that disagrees with what is recorded of the group. It
// matches node.ErrMisconfigured: nothing was written, and waiting does not help.
type TermsError struct{ Recorded, Own Terms }

// Error has both sides of what differs.
func (e *TermsError) Error() string {
	if e.Recorded.MaxTTL != 0 && e.Recorded.MaxTTL != e.Own.MaxTTL {
		return fmt.Sprintf("misconfigured: the group's MaxTTL is %v, as recorded there, and this client's is %v: all clients of a group must have the same", e.Recorded.MaxTTL, e.Own.MaxTTL)
	}
	// What is recorded may be anything: it can have been changed by hand.
	return fmt.Sprintf("misconfigured: the node belongs to another group than this client names: recorded are %.300q, and this client names %.300q: all clients must name the same nodes, in the same way (the parameter name says what a node is called)",
		strings.Join(e.Recorded.members(), ", "), strings.Join(e.Own.members(), ", "))
}

// Is makes errors.Is(err, node.ErrMisconfigured) true.
func (e *TermsError) Is(target error) bool { return target == node.ErrMisconfigured }
