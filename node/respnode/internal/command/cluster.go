package command

import (
	"errors"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Members asks a member of a cluster for all of them.
func Members() resp.Command { return resp.Command{"CLUSTER", "NODES"} }

// Member is one server of a cluster, as another one or itself sees it.
type Member struct {
	ID      string
	Address string // host:port
	Primary bool
	Failed  bool   // the others take it for down
	Myself  bool   // it is the one that was asked
	Slots   bool   // it has some
	Of      string // the ID of a replica's primary
}

// ParseMembers reads the reply to Members.
func ParseMembers(reply resp.Reply, err error) (all []Member, _ error) {
	if err != nil {
		return nil, err
	}
	text, err := reply.ToString()
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // as RESP3 begins such a text
		words := strings.Fields(line)
		if len(words) < 8 || len(words[0]) != idOfMember {
			continue
		}
		address, _, _ := strings.Cut(words[1], "@")
		m := Member{ID: words[0], Address: address, Slots: len(words) > 8}
		for flag := range strings.SplitSeq(words[2], ",") {
			switch flag {
			case "master":
				m.Primary = true
			case "fail":
				m.Failed = true
			case "myself":
				m.Myself = true
			}
		}
		if !m.Primary {
			m.Of = words[3]
		}
		all = append(all, m)
	}
	if err == nil && len(all) == 0 {
		err = quoteValue(engine.Misconfiguredf("the server lists no member of its cluster"), text)
	}
	return all, err
}

// idOfMember is the length of a member's ID.
const idOfMember = 40

// redirections are how a member of a cluster says that the slot is not its own, or that not all of
// the keys are there. It has executed nothing then. What they mean is for people.
var redirections = []struct{ word, means string }{
	{"MOVED ", "another member of the cluster has the slot of the locks, and does not answer or has not taken it over yet"},
	{"ASK ", "the slot of the locks is being moved to another member of the cluster: until that is over, and the new member is admitted, no lock can be taken"},
	{"TRYAGAIN ", "the slot of the locks is being moved to another member of the cluster: until that is over, and the new member is admitted, no lock can be taken"},
	{"CLUSTERDOWN ", "the cluster does not serve the slot of the locks: no member has it, or too many members are down (CLUSTER INFO)"},
}

// Redirected reports whether a member of a cluster refused a command and executed nothing. A
// server checks the keys of a command before it begins with it.
func (k *Keys) Redirected(err error) bool { return k.clustered && meaning(err) != "" }

// meaning says what a redirection means, "" if it is none.
func meaning(err error) string {
	said, ok := resp.IsError(err)
	for _, r := range redirections {
		if ok && strings.HasPrefix(said.Error()+" ", r.word) {
			return r.means
		}
	}
	return ""
}

// describeRedirection makes a redirection readable. Waiting may mend it.
func describeRedirection(err error) error {
	if means := meaning(err); means != "" {
		return quote(errors.New(means), err.Error())
	}
	return err
}
