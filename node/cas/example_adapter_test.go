package cas_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// database stands for the store: it remembers small values with their versions, and has a clock.
type database struct {
	mu      sync.Mutex
	created int64  // when it was made: another number after it was made anew
	version uint64 // the last one of all keys
	values  map[string]cas.Value
}

// newDatabase returns an empty store. Its versions begin at a random number, so that no two stores
// have one in common.
func newDatabase() *database {
	return &database{created: rand.Int64(), version: 1<<32 + rand.Uint64N(1<<52), values: map[string]cas.Value{}}
}

func (db *database) clock() time.Duration { return time.Duration(time.Now().UnixNano()) }

// Node is a node in a database: the engine. Package cas has all of it but the requests to the
// database.
type Node struct{ *cas.Node }

// Open opens the node in a database that exists.
func Open(db *database, name string) *Node {
	n := &Node{}
	n.Node = cas.New(n, cas.Marked(keys{db}), cas.Config{Kind: "examplenode", Name: name})
	return n
}

// keys is what package cas asks of the database: a cas.Keys.
type keys struct{ db *database }

// Look implements cas.Keys. It is a request of its own, before Get: its clock is older than each
// write that follows.
func (k keys) Look(ctx context.Context) (cas.Now, error) {
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	id := fmt.Sprint(k.db.created)
	return cas.Now{Clock: k.db.clock(), Server: id, Memory: id}, ctx.Err()
}

// Get implements cas.Keys. A key that was never written has the zero Value.
func (k keys) Get(ctx context.Context, names ...string) (values []cas.Value, err error) {
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	for _, name := range names {
		values = append(values, k.db.values[name])
	}
	return values, ctx.Err()
}

// Put implements cas.Keys: in one step it compares three things and writes one. What fails before
// the step is node.NotSent. What fails after it was sent is unknown, and returned as it is.
func (k keys) Put(ctx context.Context, key string, data []byte, over cas.Value, at cas.Now, mark uint64) (uint64,
	error) {
	if err := ctx.Err(); err != nil {
		return 0, node.NotSent(err)
	}
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	if k.db.values[key].Version != over.Version || k.db.values[cas.MarkKey].Version != mark ||
		fmt.Sprint(k.db.created) != at.Memory {
		return 0, cas.ErrConflict
	}
	k.db.version++
	k.db.values[key] = cas.Value{Data: data, Version: k.db.version, Written: k.db.clock()}
	return k.db.version, nil
}

// Stripes implements cas.Keys.
func (k keys) Stripes(ctx context.Context) (all []int, err error) {
	err = k.Scan(ctx, func(stripe int, _ cas.Value) { all = append(all, stripe) })
	return all, err
}

// Scan implements cas.Keys, with one request for all records.
func (k keys) Scan(ctx context.Context, yield func(stripe int, v cas.Value)) error {
	k.db.mu.Lock()
	defer k.db.mu.Unlock()
	for key, v := range k.db.values {
		if stripe, is := cas.ParseStripe(key); is {
			yield(stripe, v)
		}
	}
	return ctx.Err()
}

// An adapter for a store with compare-and-swap: five methods make it a node, and a Locker locks on
// it.
func Example_adapter() {
	db := newDatabase()
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{Open(db, "a database")}, NewServers: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	err = locker.Do(context.Background(), "orders/42", func(context.Context, fence.Token) error {
		fmt.Println("it holds")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: it holds
}
