package goredisnode

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/redis/go-redis/v9"
)

// database watches over the database that a client's connections are in. A SELECT that is sent
// through the client moves one connection of its pool, for all later users of that connection.
// There the node would find nothing of its own, and after a quarantine begin anew, beside the
// leases of the first database.
//
// A user that may not use SELECT can move nothing, and the server counts each refusal. So batches
// begin with a SELECT only once other code has sent one.
type database struct {
	moved  atomic.Bool
	number string
}

// away reports whether connections may be in another database.
func (d *database) away() bool { return d != nil && d.moved.Load() }

// databases are those of the clients that nodes were made of. A client has one hook,
// however many nodes: hooks cannot be removed.
var databases struct {
	mu sync.Mutex
	of map[weak.Pointer[redis.Client]]*database
}

func databaseOf(client *redis.Client) *database {
	databases.mu.Lock()
	defer databases.mu.Unlock()
	key := weak.Make(client)
	if d := databases.of[key]; d != nil {
		return d
	}
	if databases.of == nil {
		databases.of = make(map[weak.Pointer[redis.Client]]*database)
	}
	d := &database{number: strconv.Itoa(client.Options().DB)}
	databases.of[key] = d
	runtime.AddCleanup(client, func(key weak.Pointer[redis.Client]) {
		databases.mu.Lock()
		defer databases.mu.Unlock()
		delete(databases.of, key)
	}, key)
	client.AddHook(d)
	return d
}

// own marks the commands of a node.
type own struct{}

func (d *database) see(ctx context.Context, commands ...redis.Cmder) {
	if d.moved.Load() || ctx.Value(own{}) != nil {
		return
	}
	for _, c := range commands {
		args := c.Args()
		again := len(args) == 2 && fmt.Sprint(args[1]) == d.number // as each new connection is set up
		if name := c.Name(); name == "select" && !again || name == "reset" {
			d.moved.Store(true)
		}
	}
}

// DialHook implements redis.Hook.
func (d *database) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (d *database) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		d.see(ctx, command)
		return next(ctx, command)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (d *database) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		d.see(ctx, commands...)
		return next(ctx, commands)
	}
}
