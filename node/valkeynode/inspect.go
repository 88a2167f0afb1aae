package valkeynode

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/valkey-io/valkey-go"
)

// Inspect implements node.Admin. It reads in one transaction.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	key, err := n.key(name)
	if err != nil {
		return node.Lease{}, n.fail(err)
	}
	if _, err := n.look(ctx); err != nil {
		return node.Lease{}, n.fail(err)
	}
	replies, err := n.doMulti(ctx,
		n.client.B().Multi().Build(),
		n.client.B().Get().Key(key).Build(),
		n.client.B().Pttl().Key(key).Build(),
		n.client.B().Hget().Key(n.registers).Field(strconv.Itoa(node.Stripe(name))).Build(),
		n.client.B().Exec().Build(),
	)
	if err != nil {
		return node.Lease{}, n.fail(err)
	}
	values, err := exec(replies)
	if err != nil {
		return node.Lease{}, n.fail(err)
	}
	lease, _, err := parseLease(name, values)
	return lease, n.fail(err)
}

// parseLease reads the replies to GET, PTTL and HGET of one name.
func parseLease(name string, values []valkey.ValkeyMessage) (lease node.Lease, leased bool, err error) {
	lease.Name = name
	holder, err := values[0].ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		return lease, false, err
	}
	leased = err == nil
	lease.Label = node.Holder(holder).Label()
	left, err := values[1].AsInt64()
	if err != nil {
		return lease, false, err
	}
	lease.Remaining = time.Duration(max(left, 0)) * time.Millisecond
	register, err := values[2].ToString()
	if err != nil {
		if valkey.IsValkeyNil(err) {
			err = nil
		}
		return lease, leased, err
	}
	lease.Register, err = fence.Parse(register)
	return lease, leased, err
}

// List implements node.Admin. With an empty prefix every string on the server
// could be a lock's key; then only values that fenlock wrote are listed.
func (n *Node) List(ctx context.Context, yield func(node.Lease) bool) error {
	if _, err := n.look(ctx); err != nil {
		return n.fail(err)
	}
	pattern := escapeGlob(n.prefix) + "*"
	seen := make(map[string]bool) // SCAN may return a key twice
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		reply, err := n.do(ctx, n.client.B().Scan().Cursor(cursor).Match(pattern).Count(500).Type("string").Build())
		if err != nil {
			return n.fail(err)
		}
		page, err := reply.AsScanEntry()
		if err != nil {
			return n.fail(err)
		}
		cursor = page.Cursor
		for _, key := range page.Elements {
			name := strings.TrimPrefix(key, n.prefix)
			if seen[key] || reservedPrefix(key) != "" {
				continue
			}
			seen[key] = true
			replies, err := n.doMulti(ctx,
				n.client.B().Get().Key(key).Build(),
				n.client.B().Pttl().Key(key).Build(),
				n.client.B().Hget().Key(n.registers).Field(strconv.Itoa(node.Stripe(name))).Build(),
			)
			if err != nil {
				return n.fail(err)
			}
			values := make([]valkey.ValkeyMessage, len(replies))
			for i, r := range replies {
				values[i], err = r.ToMessage()
				if err != nil && !valkey.IsValkeyNil(err) {
					return n.fail(err)
				}
			}
			lease, leased, err := parseLease(name, values)
			if err != nil {
				return n.fail(fmt.Errorf("%q: %w", name, describe(err)))
			}
			if !leased || n.prefix == "" && lease.Label == "" {
				continue
			}
			if !yield(lease) {
				return nil
			}
		}
	}
	return nil
}

// escapeGlob makes a prefix match only itself in a pattern.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
