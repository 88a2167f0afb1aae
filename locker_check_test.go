package fenlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/groups"
)

// Check refuses what Acquire would, and sends nothing.
func TestCheck(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		spread, err := groups.New(groups.Config{Groups: []groups.Group{{ID: "one", Locker: l}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, checks := range []interface {
			Check(name string, opts ...fenlock.Option) error
		}{l, spread} {
			if err := checks.Check(name, fenlock.WithMinHold(time.Second)); err != nil {
				t.Error(err)
			}
			for _, err := range []error{checks.Check(""), checks.Check(name, nil),
				checks.Check(name, fenlock.WithMinHold(time.Hour))} {
				if !errors.Is(err, fenlock.ErrInvalid) {
					t.Errorf("%T: %v", checks, err)
				}
			}
		}
		if err := (*fenlock.Locker)(nil).Check(name); !errors.Is(err, fenlock.ErrInvalid) {
			t.Error(err)
		}
		if err := (*groups.Groups)(nil).Check(name); !errors.Is(err, fenlock.ErrInvalid) {
			t.Error(err)
		}
		if n := len(c.nodes[0].times(allOps)); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}
