package valkeynode_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

func TestGuardRefusesAStaleWrite(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		allow(t, server, "") // any key, and no command that a node does not need
		g, err := valkeynode.OpenGuard(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		ctx := bounded(t)

		const old, newer = fence.MaxToken - 1, fence.MaxToken // where a double would lose a unit
		for _, write := range []struct {
			value string
			token fence.Token
			stale bool
		}{
			{"first", old, false},
			{"again", old, false}, // a holder writes as often as it likes
			{"second", newer, false},
			{"late", old, true},
			{"second again", newer, false},
		} {
			err := g.Set(ctx, "order", write.value, write.token)
			var stale *fence.StaleError
			if errors.As(err, &stale) != write.stale || (err != nil) != write.stale {
				t.Fatalf("Set(%q, %v): %v, want stale %v", write.value, write.token, err, write.stale)
			}
			if write.stale && (stale.Newest != newer || !errors.Is(err, fence.ErrStale)) {
				t.Fatalf("the error is %#v, want ErrStale with the newest token, %v", stale, newer)
			}
			if got := server.Do("GET", "order"); (got == write.value) == write.stale {
				t.Fatalf("after Set(%q, %v) the key is %q", write.value, write.token, got)
			}
		}
		if err := g.Set(ctx, "order", "none", 0); !errors.Is(err, fence.ErrInvalidToken) {
			t.Fatalf("Set without a token: %v, want ErrInvalidToken", err)
		}
		// Flushed scripts are no obstacle: unlike a node's, this one may be
		// sent again.
		server.Do("SCRIPT", "FLUSH")
		if err := g.Set(ctx, "order", "third", newer); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		if err := g.Set(ctx, "order", "lost", newer); err == nil || !strings.Contains(err.Error(), server.Addr()) {
			t.Fatalf("Set on a dead server: %v, want an error that names it", err)
		}
	})
}

// What the guard cannot read, it does not overwrite: the record may have been of a
// newer holder.
func TestGuardFailsClosed(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		allow(t, server, "") // any key, and no command that a node does not need
		g, err := valkeynode.OpenGuard(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		ctx := bounded(t)
		const key, record = "order", "fenlock-token:order"
		server.Do("SET", key, "as it was")
		for _, spoil := range [][]string{
			{"SET", record, "garbage"}, {"SET", record, ""}, {"SET", record, "0"}, {"SET", record, "-1"}, {"SET", record, "1e3"},
			{"SET", record, "0x10"}, {"SET", record, " 7"}, {"SET", record, "9007199254740992"}, {"RPUSH", record, "1"},
		} {
			server.Do("DEL", record)
			server.Do(spoil...)
			err := g.Set(ctx, key, "late", 7)
			if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), record) {
				t.Errorf("%q: %v, want an error that names the record", spoil, err)
			}
			if got := server.Do("GET", key); got != "as it was" {
				t.Errorf("%q: the key is %q", spoil, got)
			}
		}
		// Fenlock's own keys: a guard would write over leases, registers, queues or
		// other guards' records.
		for _, own := range []string{"fenlock-token:x", "fenlock-registers:fenlock:", "fenlock-line:fenlock:a", "fenlock:a"} {
			if err := g.Set(ctx, own, "v", 7); !errors.Is(err, node.ErrInvalid) {
				t.Errorf("Set(%q): %v, want ErrInvalid", own, err)
			}
			if got := server.Do("EXISTS", own, "fenlock-token:"+own); got != "0" {
				t.Errorf("Set(%q) made %s keys", own, got)
			}
		}
	})
}
