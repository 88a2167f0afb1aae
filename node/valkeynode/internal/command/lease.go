package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/valkey-io/valkey-go"
)

// Inspect reads the lease of a name, and its register, in one transaction.
func (k *Keys) Inspect(build valkey.Builder, name string) ([]valkey.Completed, error) {
	key, err := k.lease(name)
	if err != nil {
		return nil, err
	}
	commands := append([]valkey.Completed{build.Multi().Build()}, k.leaseOf(build, key, name)...)
	return append(commands, build.Exec().Build()), nil
}

// ParseInspect reads the replies to Inspect.
func ParseInspect(name string, replies []valkey.ValkeyResult) (node.Lease, error) {
	values, err := exec(replies)
	if err != nil {
		return node.Lease{}, err
	}
	lease, _, err := parseLease(name, values)
	return lease, err
}

// Scan reads a page of the keys that may be leases: strings with the prefix.
func (k *Keys) Scan(build valkey.Builder, cursor uint64) valkey.Completed {
	return build.Scan().Cursor(cursor).Match(escapeGlob(k.prefix) + "*").Count(500).Type("string").Build()
}

// Listed reads what Scan found at a key. There are no commands if that is no lock's.
func (k *Keys) Listed(build valkey.Builder, key string) (name string, commands []valkey.Completed) {
	if reserved(key) != "" {
		return "", nil
	}
	name = strings.TrimPrefix(key, k.prefix)
	return name, k.leaseOf(build, key, name)
}

// ParseListed reads the replies to Listed, and reports whether it is a lease. With
// an empty prefix every string could be one: then only values that fenlock wrote are.
func (k *Keys) ParseListed(name string, replies []valkey.ValkeyResult) (lease node.Lease, listed bool, err error) {
	values := make([]valkey.ValkeyMessage, len(replies))
	for i, r := range replies {
		values[i], err = r.ToMessage()
		if err != nil && !valkey.IsValkeyNil(err) {
			return lease, false, err
		}
	}
	lease, listed, err = parseLease(name, values)
	if err != nil {
		return lease, false, fmt.Errorf("%q: %w", name, describe(err))
	}
	return lease, listed && (k.prefix != "" || lease.Label != ""), nil
}

// missing is the lifetime of a key that is not there.
const missing = -2

// maxHolder is more than the length of any holder of fenlock's. A value that is longer
// is somebody else's, and is not read whole, since it may have any length.
const maxHolder = 1024

func (k *Keys) leaseOf(build valkey.Builder, key, name string) []valkey.Completed {
	return []valkey.Completed{
		build.Getrange().Key(key).Start(0).End(maxHolder - 1).Build(),
		build.Pttl().Key(key).Build(),
		build.Hmget().Key(k.registers).Field(strconv.Itoa(node.Stripe(name)), formatField).Build(),
	}
}

// parseLease reads the replies to leaseOf.
func parseLease(name string, values []valkey.ValkeyMessage) (lease node.Lease, leased bool, err error) {
	lease.Name = name
	holder, err := values[0].ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		return lease, false, err
	}
	lease.Label = label(holder)
	left, err := values[1].AsInt64()
	if err != nil {
		return lease, false, err
	}
	leased = left != missing
	lease.Remaining = time.Duration(bound(left, mostRemaining.Milliseconds())) * time.Millisecond
	fields, err := values[2].AsStrSlice()
	if err == nil && len(fields) != 2 {
		err = fmt.Errorf("unexpected reply of %d values", len(fields))
	}
	if err == nil {
		err = checkFormat(fields[1])
	}
	if err != nil || fields[0] == "" {
		return lease, leased, err
	}
	lease.Register, err = fence.Parse(fields[0])
	return lease, leased, err
}

// label returns the label of a lease's holder. Its origin follows it.
func label(value string) string {
	holder := node.Holder(value)
	if end := strings.LastIndexByte(value, ' '); end > 0 && !holder.Reserves() {
		holder = holder[:end]
	}
	return holder.Label()
}

// escapeGlob makes a prefix match only itself in a pattern.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
