package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/fenlock/fenlock/node/rule"
)

// Inspect reads the lease of a name, and its register, in one transaction.
func (k *Keys) Inspect(name string) ([]resp.Command, error) {
	key, err := k.lease(name)
	if err != nil {
		return nil, err
	}
	commands := append([]resp.Command{resp.Command{"MULTI"}}, k.leaseOf(key, name, lastOfShared, "members", "admitted")...)
	return append(commands, resp.Command{"EXEC"}), nil
}

// ParseInspect reads the replies to Inspect. A server whose mark of admission is not one
// does not vote.
func ParseInspect(name string, replies []resp.Reply, marked func(mark string) bool) (node.Lease, error) {
	values, err := exec(replies)
	if err != nil {
		return node.Lease{}, err
	}
	lease, err := parseLease(name, values, maxShared)
	if err != nil {
		return lease, err
	}
	fields, err := values[2].AsStrSlice()
	lease.Out = err != nil || len(fields) != 4 || !marked(fields[3])
	return lease, err
}

// Scan reads a page of the keys that may be leases of names with a prefix: strings. The
// server looks at 100 keys for it, or at most ten times as many empty places of its table.
func (k *Keys) Scan(names string, cursor uint64) resp.Command {
	return resp.Command{"SCAN", strconv.FormatUint(cursor, 10), "MATCH", escapeGlob(k.prefix+names) + "*", "COUNT", "100",
		"TYPE", "string"}
}

// PerListed is the number of commands of Listed.
const PerListed = 3

// Listed reads what Scan found at a key. There are no commands if that is no lock's.
func (k *Keys) Listed(key string) (name string, commands []resp.Command) {
	if reserved(key) != "" {
		return "", nil
	}
	name = strings.TrimPrefix(key, k.prefix)
	return name, k.leaseOf(key, name, lastOfHolder)
}

// ParseListed reads the replies to Listed, and reports whether it is a lease. With
// an empty prefix every string could be one: then only values that fenlock wrote are.
func (k *Keys) ParseListed(name string, replies []resp.Reply) (lease node.Lease, listed bool, err error) {
	values := make([]resp.Reply, len(replies))
	for i, r := range replies {
		values[i], err = r, r.Err()
		if reply, refused := resp.IsError(err); refused && strings.HasPrefix(reply.Error(), "WRONGTYPE") {
			return lease, false, nil // it was replaced since it was found
		}
		if err != nil && err != resp.ErrNil {
			return lease, false, err
		}
	}
	lease, err = parseLease(name, values, maxHolder)
	// One damaged register is not to hide all locks of the server. Inspect of that lock tells it,
	// and so does Damage.
	if err != nil && !errors.Is(err, errRegister) {
		return lease, false, fmt.Errorf("%q: %w", name, describe(err))
	}
	return lease, lease.Leased && (k.prefix != "" || lease.Label != ""), nil
}

// missing is the lifetime of a key that is not there.
const missing = -2

// maxHolder is more than the length of any holder of fenlock's. A longer value is another
// program's, or that of several holders that share the name. It is not read whole, since it may
// have any length. The scripts have it too.
const maxHolder = 1024

// maxShared is more than the length of any lease that package rule lets so many share
// (MaxReaders), each with the longest label. A list reads no more than maxHolder: it has many
// keys.
const maxShared = 128 << 10

// These are the indices of the last bytes that are read.
var (
	lastOfHolder = strconv.Itoa(maxHolder - 1)
	lastOfShared = strconv.Itoa(maxShared - 1)
)

// errRegister is the error of a register that is no number.
var errRegister = errors.New("the register of this stripe is no number: it was changed by hand")

// leaseOf reads a lease up to a byte, its register, and more fields of the registers.
func (k *Keys) leaseOf(key, name, last string, more ...string) []resp.Command {
	return []resp.Command{
		resp.Command{"GETRANGE", key, "0", last},
		resp.Command{"PTTL", key},
		append(resp.Command{"HMGET", k.registers, strconv.Itoa(node.Stripe(name)), formatField}, more...),
	}
}

// parseLease reads the replies to leaseOf, which has read at most so many bytes.
func parseLease(name string, values []resp.Reply, most int) (lease node.Lease, err error) {
	value, err := values[0].ToString()
	if err != nil && err != resp.ErrNil {
		return lease, err
	}
	left, err := values[1].AsInt64()
	if err != nil {
		return lease, err
	}
	if lease = (node.Lease{Name: name}); left != missing {
		holder, origin, token := splitValue(value, most)
		lease = node.LeaseOf(name, inNanoseconds(holder))
		lease.Leased, lease.Origin, lease.Token = true, origin, token
		lease.Remaining = time.Duration(bound(left, mostRemaining.Milliseconds())) * time.Millisecond
	}
	fields, err := values[2].AsStrSlice()
	if err == nil && len(fields) != 2 && len(fields) != 4 {
		err = fmt.Errorf("unexpected reply of %d values", len(fields))
	}
	if err == nil {
		err = checkFormat(fields[1])
	}
	if err != nil {
		return lease, err
	}
	if len(fields) == 4 && fields[2] != admit.AnyMembers {
		lease.Members = strings.Join(sorted(fields[2]), " ")
	}
	if fields[0] == "" || fields[0] == "0" {
		return lease, nil
	}
	if lease.Register, err = fence.Parse(fields[0]); err != nil {
		err = fmt.Errorf("%w (%w)", errRegister, err)
	}
	return lease, err
}

// splitValue splits the value of a lease: the holder, a space, the origin and, if it is known, a
// slash and the token. What another program wrote is all holder, and so is the lease that several
// share. At most so many bytes of it were read.
func splitValue(value string, most int) (h node.Holder, origin, token fence.Token) {
	h = node.Holder(value)
	if h.Shared() {
		return several(value, most), 0, 0
	}
	end := strings.LastIndexByte(value, ' ')
	if end <= 0 || h.Reserves() || h.Shared() {
		return h, 0, 0
	}
	first, second, known := strings.Cut(value[end+1:], "/")
	origin, ok := number(first)
	if ok && known {
		token, ok = number(second)
	}
	if !ok {
		return h, 0, 0
	}
	return h[:end], origin, token
}

// severalLines is what scripts/shared.lua takes for the lease of several.
var severalLines = lazily(`^shared:[0-9]+(\n[0-9]{1,15} [0-9]+ [0-9]+ [^\n]+)+\n?$`)

// several returns those for whom the value of a lease stands; where it was not read whole, whole
// lines, and a sign that there are more (node.Holder). Another program wrote what only begins like
// it.
func several(value string, most int) node.Holder {
	whole := value
	if len(value) >= most {
		whole = value[:strings.LastIndexByte(value, '\n')+1]
	}
	if !severalLines().MatchString(whole) {
		return node.Holder("not " + value)
	}
	return node.Holder(whole)
}

// inNanoseconds has the times of those who share a name, which the server keeps in milliseconds, as
// node.LeaseOf wants them.
func inNanoseconds(h node.Holder) node.Holder {
	if !h.Shared() {
		return h
	}
	return node.Holder(expiresInMS().ReplaceAllString(string(h), "${1}000000"))
}

// expiresInMS is the first number of each line but the first one.
var expiresInMS = lazily(`(\n[0-9]+)`)

// number reads an origin, which may be 0, or a token.
func number(text string) (fence.Token, bool) {
	if text == "0" {
		return 0, true
	}
	n, err := fence.Parse(text)
	return n, err == nil
}

// Waiting reads the first waiters in the queue of a name, and the server's clock, by
// which they came.
func (k *Keys) Waiting(name string, limit int) ([]resp.Command, error) {
	key, err := k.lease(name)
	if err != nil {
		return nil, err
	}
	queue := queuePrefix + key
	first, last := 0, limit-1
	if limit < 1 {
		first = 1 // "0 to -1" would be all of them
		last = 0
	}
	return []resp.Command{
		resp.Command{"MULTI"},
		resp.Command{"ZCARD", queue},
		resp.Command{"ZRANGE", queue, strconv.Itoa(first), strconv.Itoa(last), "WITHSCORES"},
		resp.Command{"TIME"},
		resp.Command{"EXEC"},
	}, nil
}

// ParseWaiting reads the replies to Waiting.
func ParseWaiting(replies []resp.Reply) (first []node.Waiter, all int, err error) {
	values, err := exec(replies)
	if err != nil {
		return nil, 0, err
	}
	count, err := values[0].AsInt64()
	if err != nil {
		return nil, 0, err
	}
	places, err := values[1].AsScores()
	if err != nil {
		return nil, 0, err
	}
	clock, err := values[2].AsIntSlice()
	if err == nil && len(clock) != 2 {
		err = fmt.Errorf("unexpected reply of %d values", len(clock))
	}
	if err != nil {
		return nil, 0, err
	}
	now := time.Duration(bound(clock[0], mostClock/1_000_000))*time.Second + time.Duration(bound(clock[1],
		999_999))*time.Microsecond
	for _, p := range places {
		at := node.Place{Waiter: p.Member, Stamp: int64(max(min(p.Score, 1<<53), 0))}
		if rule.CheckPlace(at) == nil { // else another program wrote it
			first = append(first, node.WaiterOf(at, now))
		}
	}
	return first, int(bound(count, rule.MaxQueue)), nil
}

// escapeGlob makes a prefix match only itself in a pattern.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
