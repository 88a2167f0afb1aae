package admission

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// store is what package admit asks of a server.
type store struct {
	link   resp.Link
	keys   *command.Keys
	errors command.Errors

	tokens map[int]fence.Token // what the registers are raised to by the next Mark
}

// Facts implements admit.Store. On a server of a newer format it leaves no candidate.
func (s *store) Facts(ctx context.Context) (admit.Facts, error) {
	err := command.CheckFormat(s.link.Do(ctx, s.keys.Format()))
	var f command.Facts
	if err == nil {
		f, err = s.keys.ParseFacts(s.link.DoMulti(ctx, s.keys.Gather(rand.Text())...))
	}
	if err != nil {
		return admit.Facts{}, s.errors.Describe(err)
	}
	return FactsOf(f), nil
}

// Note implements admit.Store.
func (s *store) Note(ctx context.Context, f admit.Facts) (bool, error) {
	done, err := command.ParseStep(s.link.Do(ctx, s.keys.Notice(f.State.(command.Facts).ReplID)))
	return done, s.errors.Describe(err)
}

// Raise implements admit.Store. The registers are raised in the step that sets the mark.
func (s *store) Raise(_ context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	s.tokens = tokens
	return nil
}

// Mark implements admit.Store: it raises the registers, sets the mark, and then loads the scripts.
func (s *store) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	tokens := s.tokens
	s.tokens = nil
	done, err := command.ParseStep(s.link.Do(ctx, s.keys.Admit(f.State.(command.Facts), own, empty, tokens)))
	if err != nil || !done {
		return false, s.errors.Describe(err)
	}
	// Should the server restart in between, the scripts are loaded beside no mark
	// or an old one, and refuse.
	for _, script := range command.Operations {
		if err := script.ParseLoad(s.link.Do(ctx, script.Load())); err != nil {
			return false, s.errors.Describe(err)
		}
	}
	return true, nil
}

// uptimeSlack covers that INFO counts whole seconds, of times rounded down on both sides. A server
// can be up for almost a second less than it says.
const uptimeSlack = time.Second

// FactsOf says of a server what decides whether it may vote.
//
// The time for which it is out counts from the note that removed the mark. It counts from the
// server's start only if no lease can have been made since. Without a mark the scripts refuse, and
// without the scripts in its cache nothing is carried out. The mark is read before the scripts are
// looked for (Gather). So a client that loaded them meanwhile, after the mark was gone, makes no
// lease either.
//
// None of this holds for a member of a cluster: its slot may have been another one's since,
// whatever this one went through. It is never new, its own start tells nothing, and it has kept its
// memory only if the mark is of what it is now.
func FactsOf(f command.Facts) admit.Facts {
	current := f.Marked != "" && f.Marked == f.ReplID
	clustered := f.Clustered()
	to := admit.Facts{
		Server: f.RunID, Memory: f.Memory(), Terms: f.Terms,
		// The scripts need the longest lease. A mark without all that belongs to it is set once more.
		Votes: current && f.ScriptsReady && f.Current() && f.MaxTTL != 0,
		// The format is recorded with the mark, and is there if a person has removed the rest.
		Marked: f.Marked != "", Recorded: f.Marked != "" || f.Format != "" || f.Terms != admit.Terms{} || clustered,
		Untouched: untouched(f), Empty: f.Empty, State: f, Cause: cause(f),
	}
	// Only the scripts are gone, or the format is an older one; or the server was started again, and
	// has read all that it had. A file that was loaded under loaded scripts is no start.
	to.Kept = !to.Votes && (current || !clustered && to.Untouched && f.Kept())
	if since, noted := f.Noticed(); noted && f.Marked == "" {
		to.Counted, to.Out = true, since
	}
	f.Marked = "" // as it will be
	if up := f.Uptime - uptimeSlack; !clustered && untouched(f) && (!to.Counted || to.Out < up) {
		to.Counted, to.Out = true, up
	}
	return to
}

// cause says why a server is out.
func cause(f command.Facts) node.Cause {
	switch {
	case f.Clustered() && f.Marked == "" && f.Terms == admit.Terms{}:
		return node.Unused // or an empty heir
	case f.Promoted:
		return node.Replaced
	case untouched(f):
		return node.Restarted
	case f.Marked == "" && f.Terms == admit.Terms{}:
		return node.Unused
	case f.ScriptsLoaded:
		return node.Replaced
	}
	return node.Restarted
}

// untouched reports whether the server cannot have been admitted since it was started: no client
// has loaded a script.
//
// Without a mark, scripts of another version of fenlock count, and so do other
// programs' scripts, which cannot be told from them.
func untouched(f command.Facts) bool {
	return !f.Clustered() && !f.ScriptsLoaded && !f.ScriptsFlushed && !f.Promoted &&
		!(f.Marked == "" && f.ScriptsEverLoaded)
}
