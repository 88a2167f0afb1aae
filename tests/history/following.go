package history

import "fmt"

// following checks what those saw who follow a leader: terms that never become smaller, and of each
// term who has it. They may see no leader at any time, and after that the same leader again.
func (x *examination) following() {
	type follower struct {
		client int
		name   string
	}
	type term struct {
		name  string
		token uint64
	}
	leaders := make(map[term]*tenure)
	for _, t := range x.tenures {
		leaders[term{t.name, t.token}] = t
	}
	largest := make(map[follower]uint64)
	for _, e := range x.Events {
		if e.Kind != Follows || e.Token == 0 {
			continue
		}
		f := follower{e.Client, e.Name}
		found := func(format string, args ...any) {
			x.violated(e.At, Following, x.tokensExcuse(e.At), fmt.Sprintf("%q: client %d, %v after the start: %s",
				e.Name, e.Client, x.since(e.At), fmt.Sprintf(format, args...)))
		}
		if e.Token < largest[f] {
			found("it follows the term %d, after %d", e.Token, largest[f])
		}
		largest[f] = max(largest[f], e.Token)
		// A leader may have been killed before it said that it leads.
		t := leaders[term{e.Name, e.Token}]
		switch {
		case t == nil:
		case e.Text != label(t.client):
			found("it takes %q for the leader with the term %d, which is %v's", e.Text, e.Token, t)
		case e.At < t.asked:
			found("it follows %v before that stood", t)
		}
	}
}

// label is what a client calls itself.
func label(client int) string { return fmt.Sprint("client ", client) }
