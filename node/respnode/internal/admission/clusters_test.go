package admission

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// A member of a cluster votes by a mark of what it is now, and by nothing else. It is never new.
// Its own start does not count as the beginning of its absence, and no file of its own is believed.
func TestFactsOfAMember(t *testing.T) {
	keys := new(command.Keys).InCluster()
	recorded := admit.Terms{MaxTTL: 30 * time.Second, Members: "a"}
	for _, c := range []struct {
		name   string
		change func(f *command.Facts)
		want   admit.Do
	}{
		{"never used", func(*command.Facts) {}, admit.Note},
		{"an empty heir, which is up for long", func(f *command.Facts) { f.ScriptsEverLoaded = true }, admit.Note},
		{"restarted with a file", func(f *command.Facts) { f.Marked = "a" }, admit.Note},
		{"durable before and after", func(f *command.Facts) {
			f.Marked, f.Terms, f.WasDurable, f.AOF, f.FsyncAlways = "a", recorded, true, true, true
		}, admit.Note},
		{"only its scripts are gone", func(f *command.Facts) { f.Marked, f.Terms = "b", recorded }, admit.Admit},
		{"the mark is of what it is now", func(f *command.Facts) {
			f.Marked, f.Terms, f.Format, f.ScriptsLoaded, f.ScriptsReady = "b", recorded, "3", true, true
		}, admit.Vote},
	} {
		f, err := keys.ParseInfo("redis_version:7.0.0\r\nrun_id:r\r\nrole:master\r\nmaster_replid:b\r\n" +
			"second_repl_offset:-1\r\nuptime_in_seconds:360000\r\nredis_mode:cluster\r\n")
		if err != nil {
			t.Fatal(err)
		}
		c.change(&f)
		facts := FactsOf(f)
		if v := admit.Decide(facts, admit.Client{Terms: recorded, Nodes: 1, New: true}, nil, false); v.Do != c.want {
			t.Errorf("%s: %+v; want %v", c.name, v, c.want)
		}
		if facts.Untouched || !facts.Recorded || f.Durable() {
			t.Errorf("%s: %+v", c.name, facts)
		}
	}
}

// A cluster is one node's of a group, whichever member tells of it. The node may find it changed.
func TestClusterHasOneVote(t *testing.T) {
	group := new(clusters)
	one, two := &store{errors: command.Errors{Name: "one"}}, &store{errors: command.Errors{Name: "two"}}
	for _, c := range []struct {
		by   *store
		of   members
		says string
	}{
		{two, members{"a", "b"}, ""},
		{one, members{"b", "c"}, "the node two"},
		{one, members{"x"}, ""},
		{two, members{"b", "c"}, ""},
		{two, members{"c", "x"}, "the node one"},
		{one, members{"a"}, ""}, // the first node's cluster has it no more
	} {
		err := group.claim(c.by, c.of)
		if (err == nil) != (c.says == "") || err != nil &&
			(!errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s claims %v: %v; want %q", c.by.errors.Name, c.of, err, c.says)
		}
	}
	if len(group.of) != 2 {
		t.Errorf("%d clusters of two nodes", len(group.of))
	}
}
