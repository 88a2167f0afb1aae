package rule

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Each operation is refused for what it uses, and for nothing else. Where the bounds are
// is in FuzzChecks.
func TestCheckLooksAtWhatTheOperationUses(t *testing.T) {
	good := node.Request{Name: "a", Holder: "h", TTL: time.Second, Token: 1}
	for what, bad := range map[string]struct {
		change  func(*node.Request)
		refuses []node.Op
	}{
		"no TTL":       {func(r *node.Request) { r.TTL = 0 }, []node.Op{node.Acquire, node.Extend}},
		"no holder":    {func(r *node.Request) { r.Holder = "" }, []node.Op{node.Acquire, node.Extend}},
		"bad place":    {func(r *node.Request) { r.Place.Stamp = -1 }, []node.Op{node.Acquire, node.Release}},
		"bad proposal": {func(r *node.Request) { r.Token = MaxProposal + 1 }, []node.Op{node.Acquire}},
		"bad token": {func(r *node.Request) { r.Token = fence.MaxToken + 1 },
			[]node.Op{node.Acquire, node.Confirm, node.Extend, node.ForceRelease}},
	} {
		for op := node.Acquire; op <= node.ForceRelease; op++ {
			r := good
			r.Op = op
			if err := Check(r); err != nil {
				t.Errorf("%v: %v", op, err)
			}
			bad.change(&r)
			err := Check(r)
			if refused := slices.Contains(bad.refuses, op); (err != nil) != refused ||
				err != nil && !errors.Is(err, node.ErrInvalid) {
				t.Errorf("%v with %s: %v; want it refused: %v", op, what, err, refused)
			}
		}
	}
	for _, op := range []node.Op{0, node.ForceRelease + 1, 255} {
		r := good
		r.Op = op
		if err := Check(r); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%v: %v; want ErrInvalid", op, err)
		}
		if a, _ := Serve(&Entry{}, nil, 0, r); a.Status != node.Unknown {
			t.Errorf("%v was served: %+v", op, a)
		}
	}
}
