package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// The lease of several is read as far as it was sent: it has labels, and no origin.
func TestValueOfSeveral(t *testing.T) {
	value := "shared:7"
	for i := range 9 {
		value += fmt.Sprintf("\n1732161439123 7 0 %s %d", holder, i)
	}
	for end := range len(value) + 1 {
		label(value[:end]) // does not panic
	}
	if got := label(value); got != "label 0 and 8 more that share it" {
		t.Errorf("the label is %q", got)
	}
	for i := range 256 {
		value := value + fmt.Sprintf("\n1732161439123 7 0 %s%d", holder, i) // longer and longer
		for len(value) < maxHolder {
			value += "\n1732161439123 7 0 " + holder
		}
		if got := label(value[:maxHolder]); !strings.HasPrefix(got, "label 0 and at least ") {
			t.Fatalf("the label of what was read in part is %q", got)
		}
	}
	if got := label("shared:7" + strings.Repeat("x", maxHolder)); got != "" {
		t.Errorf("the label of one long line, which is a stranger's, is %q", got)
	}
	if h, origin, token := splitValue(value, maxHolder); string(h) != value || origin != 0 || token != 0 {
		t.Errorf("it has the origin %d and the token %d", origin, token)
	}
	for value, want := range map[string]bool{value: true, "shared:7": false, "shared:": false, "shared": false,
		"x\nshared:7": false} {
		if ours(value) != want {
			t.Errorf("%q: %v", value, !want)
		}
	}
}

// A client that shares nothing sends what was sent before sharing existed.
func TestCommandsOfThoseWhoShare(t *testing.T) {
	keys, err := NewKeys(DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	r := node.Request{Name: "a", Holder: holder, TTL: time.Second, Token: 5, OwnToken: 6,
		Place: node.Place{Waiter: "w", Stamp: 9}}
	stripe := fmt.Sprint(node.Stripe("a"))
	const lease, registers, queue = "fenlock:a", "fenlock-registers:fenlock:", "fenlock-line:fenlock:a"
	for _, c := range []struct {
		op     node.Op
		shared bool
		want   []string
	}{
		{node.Acquire, false, []string{acquireScript.SHA(), "3", lease, registers, queue, holder, "1000", stripe, "5", "id",
			"w", "9"}},
		{node.Acquire, true, []string{acquireSharedScript.SHA(), "3", lease, registers, queue, holder, "1000", stripe, "5",
			"id", "w", "9"}},
		{node.Extend, false, []string{extendScript.SHA(), "2", lease, registers, holder, "1000", stripe, "5", "id", "6"}},
		{node.Extend, true, []string{extendSharedScript.SHA(), "3", lease, registers, queue, holder, "1000", stripe, "5",
			"id", "6"}},
		{node.Confirm, true, []string{confirmScript.SHA(), "2", lease, registers, holder, stripe, "5", "id"}},
		{node.Release, true, []string{releaseScript.SHA(), "2", lease, queue, holder, "w", "9"}},
	} {
		r.Op, r.Shared = c.op, c.shared
		want := append([]string{"EVALSHA"}, c.want...)
		if got := keys.Operation(nil, &r, "id", new(Last)); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%v, shared %v: %q; want %q", c.op, c.shared, got, want)
		}
	}
}

// label returns the label of a lease's holder.
func label(value string) string {
	holder, _, _ := splitValue(value, maxHolder)
	return holder.Label()
}
