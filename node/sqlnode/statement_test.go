package sqlnode

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// A process that takes one lock prepares nothing about waiters; one that goes on has it
// prepared, once, and is answered alike before and after.
func TestStatementsArePreparedWhenUsedOften(t *testing.T) {
	n, err := OpenFile(filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	do := func(r node.Request) node.Answer {
		t.Helper()
		r.Name = "a"
		answer, err := n.Do(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if n.stmt.queue.prepared.Load() == nil || n.stmt.setLease.prepared.Load() == nil {
		t.Error("what every lock needs is not prepared when the node is open")
	}
	do(node.Request{Op: node.Acquire, Holder: "h", TTL: time.Second, Token: 1})
	do(node.Request{Op: node.Release, Holder: "h"})
	for _, s := range []*statement{&n.stmt.insert, &n.stmt.head, &n.stmt.waiting, &n.stmt.page} {
		if s.prepared.Load() != nil || s.used > 0 {
			t.Errorf("one lock has used or prepared: %s", s.text)
		}
	}
	if used := n.stmt.lease.used; used > 0 {
		t.Errorf("a lease was looked for %d times by a statement that was not prepared", used)
	}
	do(node.Request{Op: node.Acquire, Holder: "h", TTL: time.Hour, Token: 1})
	for i := range 5 {
		var listed []node.Lease
		if err := n.List(context.Background(), "", func(l node.Lease) bool { listed = append(listed, l); return true }); err != nil || len(listed) != 1 || listed[0].Name != "a" {
			t.Fatalf("list %d: %+v, %v", i, listed, err)
		}
		if prepared := n.stmt.page.prepared.Load() != nil; prepared != (i >= often) {
			t.Errorf("list %d: prepared %v", i, prepared)
		}
	}
	if used := n.stmt.page.used; used != often {
		t.Errorf("used %d times before it was prepared, want %d", used, often)
	}
}
