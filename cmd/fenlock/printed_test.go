//go:build linux || darwin || freebsd

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/sqlnode"
)

// store leases names in the default file, for a minute.
func (h *home) store(holder string, names ...string) {
	h.t.Helper()
	folder := filepath.Join(h.state, "fenlock")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		h.t.Fatal(err)
	}
	n, err := sqlnode.OpenFile(filepath.Join(folder, "fenlock.db"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer n.Close()
	for _, name := range names {
		r := node.Request{Op: node.Acquire, Name: name, Holder: node.Holder(holder), TTL: time.Minute, Token: 1}
		if a, err := n.Do(h.t.Context(), r); err != nil || a.Status != node.Granted {
			h.t.Fatalf("%q: %+v, %v", name, a, err)
		}
	}
}

// A pattern finds the locks that it matches, however many others lie between them, and
// whether there are more.
func TestPatternsAndLimits(t *testing.T) {
	h := newHome(t)
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("x%02d", i))
	}
	h.store("somebody", names...)
	for _, c := range []struct {
		args string
		want int
		more bool
	}{
		{"--limit 2 x*5", 2, true}, {"--limit 3 x*5", 3, true}, {"--limit 4 x*5", 4, false}, {"--limit 5 x*5", 4, false},
		{"--limit 1 x39", 1, false}, {"--limit 1 x3?", 1, true}, {"--limit 40", 40, false}, {"--limit 39", 39, true}, {"--limit 3 *y", 0, false},
	} {
		r := h.start(append([]string{"fenlock", "ls", "--json"}, strings.Fields(c.args)...)...)
		var list listDoc
		if err := json.Unmarshal([]byte(r.rest()), &list); err != nil || len(list.Locks) != c.want || list.More != c.more {
			t.Errorf("%s: %d locks, more: %v; want %d, %v (%v)", c.args, len(list.Locks), list.More, c.want, c.more, err)
		}
		r.want(0)
	}
	h.start("fenlock", "ls", "x\xff*").want(exitUsage, "not valid UTF-8")
}
