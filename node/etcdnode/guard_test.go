//go:build unix

package etcdnode_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestGuard(t *testing.T) {
	c := raw(t, shared())
	g, err := etcdnode.NewGuard(c)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	g.Refused = func(context.Context, *fence.StaleError) { refused++ }
	ctx, resource := t.Context(), fmt.Sprint("guarded/", prefixes.Add(1))
	value := func(want string) {
		t.Helper()
		if a, err := c.Get(ctx, resource); err != nil || len(a.Kvs) != 1 || string(a.Kvs[0].Value) != want {
			t.Errorf("the value is %v, %v; want %q", a.Kvs, err, want)
		}
	}
	for _, step := range []struct {
		token  fence.Token
		newest fence.Token // 0: it passes
	}{{7, 0}, {7, 0}, {6, 7}, {100, 0}, {15, 100}, {99, 100}, {fence.MaxToken, 0}, {fence.MaxToken - 1, fence.MaxToken},
		{fence.MaxToken, 0}} {
		text := fmt.Sprint("by ", step.token)
		a, err := g.Do(ctx, resource, step.token, clientv3.OpPut(resource, text), clientv3.OpGet(resource))
		var stale *fence.StaleError
		switch {
		case step.newest == 0 && (err != nil || len(a) != 2 || string(a[1].Get().Kvs[0].Value) != text):
			t.Errorf("token %d: %v, %v", step.token, a, err)
		case step.newest != 0 && (!errors.As(err, &stale) || stale.Newest != step.newest || stale.Token != step.token ||
			stale.Resource != resource):
			t.Errorf("token %d: %v; want it refused for %d", step.token, err, step.newest)
		case step.newest == 0:
			value(text)
		}
	}
	if refused != 4 {
		t.Errorf("told of %d refusals; want 4", refused)
	}
	// To shut out the one before, nothing has to be written.
	other := resource + "/other"
	if _, err := g.Do(ctx, other, 10); err != nil {
		t.Error(err)
	}
	if _, err := g.Do(ctx, other, 9, clientv3.OpPut(other, "x")); !errors.As(err, new(*fence.StaleError)) {
		t.Errorf("after a newer token was shown: %v", err)
	}
	for _, bad := range []fence.Token{0, fence.MaxToken + 1} {
		if _, err := g.Do(ctx, resource, bad); !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("token %d: %v", uint64(bad), err)
		}
	}
	if _, err := g.Do(ctx, "r", 1, clientv3.OpPut("fenlock-token/r", "0")); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("the guard's own key: %v", err)
	}
	for _, byHand := range []string{"zzz", "", "0", "00000000000000"} {
		if _, err := c.Put(ctx, "fenlock-token/"+resource, byHand); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Do(ctx, resource, 11, clientv3.OpPut(resource, "x")); err == nil ||
			errors.As(err, new(*fence.StaleError)) {
			t.Errorf("the record %q, which is no token: %v", byHand, err)
		}
	}
}
