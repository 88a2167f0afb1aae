package etcdnode

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// record is the value of a lease's key: five words, of which the last, the holder, may
// have any bytes. Written is on the node's clock.
type record struct {
	origin, token fence.Token
	ttl, written  time.Duration
	holder        node.Holder
}

func (r record) String() string {
	return fmt.Sprintf("%d %d %d %d %s", uint64(r.origin), uint64(r.token), r.ttl.Milliseconds(), r.written.Microseconds(),
		string(r.holder))
}

func parseRecord(value []byte) (r record, err error) {
	words := strings.SplitN(string(value), " ", 5)
	if len(words) != 5 || words[4] == "" {
		return r, errForeign
	}
	var n [4]uint64
	for i := range n {
		if n[i], err = strconv.ParseUint(words[i], 10, 63); err != nil {
			return r, errForeign
		}
	}
	if n[0] > uint64(fence.MaxToken) || n[1] > uint64(fence.MaxToken) || n[2] > mostMillis || n[3] > mostMillis*1000 {
		return r, errForeign
	}
	return record{fence.Token(n[0]), fence.Token(n[1]), time.Duration(n[2]) * time.Millisecond,
		time.Duration(n[3]) * time.Microsecond, node.Holder(words[4])}, nil
}

// mostMillis is 200 years, which a time.Duration holds.
const mostMillis = 200 * 365 * 24 * 3600 * 1000

// remaining is what is left of the lease when the node's clock shows now: an estimate, for people
// and for waiters. The key is there, so it is never nothing. If the lease should have ended,
// because its process was killed or the clocks differ, the estimate is half of the time since then.
// So a client that asks when it is over asks ever more rarely.
func (r record) remaining(now time.Duration) time.Duration {
	left := r.ttl - max(now-r.written, 0)
	if left < 0 {
		left = min(-left/2, r.ttl)
	}
	return max(left, time.Millisecond)
}

// A register is written with as many digits as the largest, so that etcd compares
// registers as numbers when it compares their bytes.
func formatRegister(t fence.Token) string { return fmt.Sprintf("%014x", uint64(t)) }

func parseRegister(value []byte) (fence.Token, error) {
	n, err := strconv.ParseUint(string(value), 16, 63)
	if err != nil || len(value) != 14 || n > uint64(fence.MaxToken) {
		return 0, fmt.Errorf("%w: a register is %.40q", errForeign, value)
	}
	return fence.Token(n), nil
}

// readRegisters reads registers, with the revisions of their keys.
func (k keys) readRegisters(a *clientv3.GetResponse) (tokens map[int]fence.Token, mods map[int]int64, err error) {
	tokens, mods = map[int]fence.Token{}, map[int]int64{}
	for _, kv := range a.Kvs {
		var stripe int
		text := strings.TrimPrefix(string(kv.Key), k.registers())
		if _, err := fmt.Sscanf(text, "%03x", &stripe); err != nil || stripe < 0 || stripe >= node.Stripes ||
			string(kv.Key) != k.register(stripe) {
			return nil, nil, fmt.Errorf("%w: %s", errForeign, kv.Key)
		}
		if tokens[stripe], err = parseRegister(kv.Value); err != nil {
			return nil, nil, err
		}
		mods[stripe] = kv.ModRevision
	}
	return tokens, mods, nil
}
