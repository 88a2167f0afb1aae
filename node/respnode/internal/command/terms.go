package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Terms are what all clients of a group agree on, as a server has them recorded since it
// was admitted first, or as a client has them.
type Terms struct {
	MaxTTL time.Duration // 0 if not recorded
	// Members are the nodes, as the clients name them, separated by spaces; empty if not
	// recorded, and AnyMembers if the operator answers for it.
	Members string
}

// AnyMembers is the record of a server whose clients name the nodes in different ways.
const AnyMembers = "*"

// Terms asks for what is recorded.
func (k *Keys) Terms() resp.Command {
	return resp.Command{"HMGET", k.registers, "maxttl", "members"}
}

// ParseTerms reads the reply to Terms.
func ParseTerms(reply resp.Reply) (t Terms, err error) {
	fields, err := reply.AsStrSlice()
	if err == nil && len(fields) != 2 {
		err = fmt.Errorf("unexpected reply of %d values", len(fields))
	}
	if err != nil {
		return t, err
	}
	return Terms{parseMilliseconds(fields[0]), fields[1]}, nil
}

// Check returns why a client with its own terms must not use a server that has these
// recorded, or nil. With another MaxTTL, the client would let a server vote before the
// leases have ended that it has forgotten; with other nodes, two majorities need have
// no node in common.
func (t Terms) Check(own Terms) error {
	switch {
	case t.MaxTTL != 0 && t.MaxTTL != own.MaxTTL:
		return Misconfigured("the group's MaxTTL is %v, as recorded on this server, and this client's is %v: all clients must agree", t.MaxTTL, own.MaxTTL)
	case t.Members != "" && t.Members != AnyMembers && !slices.Equal(sorted(t.Members), sorted(own.Members)):
		return quote(Misconfigured("this server belongs to another group of nodes than this client names, %s: all clients must name the same ones, in the same way (docs/operations.md)", list(own.Members)),
			"the group is "+list(t.Members))
	}
	return nil
}

// sorted returns the members in one order, whoever wrote them down.
func sorted(members string) []string { return slices.Sorted(strings.FieldsSeq(members)) }

func list(members string) string { return strings.Join(sorted(members), ", ") }

func parseMilliseconds(s string) time.Duration {
	ms, _ := strconv.ParseInt(s, 10, 64)
	return time.Duration(ms) * time.Millisecond
}

// CheckMember returns why a node cannot be called so, or nil: the record separates names by
// spaces.
func CheckMember(name string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) || name == AnyMembers {
		return Invalid("a node's name is empty, has spaces or is *")
	}
	return nil
}
