package admit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/memnode"
)

func TestTermsCheck(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, own admit.Terms
		differs       string
	}{
		"the same":                  {group, group, ""},
		"in another order":          {admit.Terms{MaxTTL: maxTTL, Members: " c  a b"}, group, ""},
		"nothing recorded":          {admit.Terms{}, group, ""},
		"MaxTTL only":               {admit.Terms{MaxTTL: maxTTL}, group, ""},
		"members only":              {admit.Terms{Members: "a b c"}, group, ""},
		"any members":               {admit.Terms{MaxTTL: maxTTL, Members: admit.AnyMembers}, group, ""},
		"any members, other MaxTTL": {admit.Terms{MaxTTL: 1, Members: admit.AnyMembers}, group, "MaxTTL is 1ns"},
		"a longer MaxTTL": {admit.Terms{MaxTTL: maxTTL + time.Millisecond, Members: "a b c"}, group,
			"MaxTTL is 10.001s"},
		"a shorter MaxTTL": {admit.Terms{MaxTTL: maxTTL - time.Millisecond, Members: "a b c"}, group,
			"MaxTTL is 9.999s"},
		"a node more":  {admit.Terms{MaxTTL: maxTTL, Members: "a b c d"}, group, `"a, b, c, d"`},
		"a node less":  {admit.Terms{MaxTTL: maxTTL, Members: "a b"}, group, `"a, b"`},
		"another node": {admit.Terms{MaxTTL: maxTTL, Members: "a b d"}, group, `"a, b, d"`},
		"a node twice": {admit.Terms{MaxTTL: maxTTL, Members: "a a b c"}, group, `"a, a, b, c"`},
		"one, by another name": {admit.Terms{MaxTTL: maxTTL, Members: "a"}, admit.Terms{MaxTTL: maxTTL, Members: "b"},
			""},
		"one, and three": {admit.Terms{MaxTTL: maxTTL, Members: "a"}, group, `"a"`},
		"garbage":        {admit.Terms{MaxTTL: maxTTL, Members: strings.Repeat("x", 100_000)}, group, "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.recorded.Check(c.own)
			if c.differs == "" && err != nil || c.differs != "" && err == nil {
				t.Fatalf("got %v; want %q", err, c.differs)
			}
			if err == nil {
				return
			}
			var terms *admit.TermsError
			if !errors.Is(err, node.ErrMisconfigured) || !errors.As(err, &terms) || terms.Recorded != c.recorded ||
				terms.Own != c.own {
				t.Errorf("%#v matches too little", err)
			}
			if text := err.Error(); !strings.Contains(text, c.differs) || len(text) > 2000 {
				t.Errorf("%.500s lacks %q, or is too long", text, c.differs)
			}
		})
	}
}

// The terms are those of the group, in whatever order a client names the nodes, in whole
// milliseconds.
func TestTermsOf(t *testing.T) {
	a, b := memnode.New("b"), memnode.New("a")
	got := admit.TermsOf(node.Group{Nodes: []node.Node{a, b}, MaxTTL: time.Second + time.Microsecond})
	if want := (admit.Terms{MaxTTL: time.Second, Members: admit.Member(b) + " " + admit.Member(a)}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
