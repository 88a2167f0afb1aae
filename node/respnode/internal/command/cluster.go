package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Members asks a member of a cluster for all of them.
func Members() resp.Command { return resp.Command{"CLUSTER", "NODES"} }

// ParseMembers reads the reply to Members: their IDs, in order, and whether any of them has slots.
func ParseMembers(reply resp.Reply, err error) (ids []string, serves bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	text, err := reply.ToString()
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // as RESP3 begins such a text
		words := strings.Fields(line)
		if len(words) < 8 || len(words[0]) != idOfMember {
			continue
		}
		ids, serves = append(ids, words[0]), serves || len(words) > 8
	}
	if err == nil && len(ids) == 0 {
		err = quoteValue(engine.Misconfiguredf("the server lists no member of its cluster"), text)
	}
	slices.Sort(ids)
	return ids, serves, err
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
