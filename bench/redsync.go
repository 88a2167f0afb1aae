package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"
)

func openRedsync(b *bench) (client, error) {
	return openRedsyncOver(b, func(address string) (redsyncredis.Pool, func(), error) {
		r := redis.NewClient(&redis.Options{Addr: address})
		return goredis.NewPool(r), func() { r.Close() }, nil
	})
}

func openRedsyncValkey(b *bench) (client, error) {
	return openRedsyncOver(b, func(address string) (redsyncredis.Pool, func(), error) {
		v, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{address}})
		if err != nil {
			return nil, nil, err
		}
		return valkeyPool{v}, v.Close, nil
	})
}

func openRedsyncOver(b *bench, open func(address string) (redsyncredis.Pool, func(), error)) (client, error) {
	var pools []redsyncredis.Pool
	var closers []func()
	end := func() {
		for _, close := range closers {
			close()
		}
	}
	for _, address := range b.addresses() {
		pool, close, err := open(address)
		if err != nil {
			end()
			return nil, err
		}
		closers, pools = append(closers, close), append(pools, pool)
	}
	r := redsync.New(pools...)
	return library{func(ctx context.Context, name string) (func() error, error) {
		mutex := r.NewMutex("redsync:"+name, redsync.WithTries(math.MaxInt), redsync.WithExpiry(b.theirTTL()))
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error {
			ok, err := mutex.Unlock()
			if err == nil && !ok {
				err = errors.New("unlock found no quorum")
			}
			return err
		}, nil
	}, end}, nil
}

// valkeyPool is redsync's own pool for valkey-go (its package redis/valkeygo), without the module
// valkeycompat between the two. The module proxy in use does not serve the version that redsync
// requires. The commands are the same ones, and what valkeycompat would cost on top is not paid, to
// redsync's advantage.
type valkeyPool struct{ client valkey.Client }

func (p valkeyPool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	return &valkeyConn{nil, p.client, ctx}, nil
}

// valkeyConn has what a lock of redsync calls; the interface is nil.
type valkeyConn struct {
	redsyncredis.Conn
	client valkey.Client
	ctx    context.Context
}

func (c *valkeyConn) Close() error { return nil }

func (c *valkeyConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	set := c.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build()
	err := c.client.Do(c.ctx, set).Error()
	return err == nil, notNil(err)
}

func (c *valkeyConn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	words := make([]string, len(keysAndArgs))
	for i, word := range keysAndArgs {
		words[i] = fmt.Sprint(word) // strings, and whole numbers
	}
	keys, args := words[:script.KeyCount], words[script.KeyCount:]
	n, b := int64(len(keys)), c.client.B()
	v, err := c.client.Do(c.ctx, b.Evalsha().Sha1(script.Hash).Numkeys(n).Key(keys...).Arg(args...).Build()).ToAny()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT ") {
		v, err = c.client.Do(c.ctx, b.Eval().Script(script.Src).Numkeys(n).Key(keys...).Arg(args...).Build()).ToAny()
	}
	return v, notNil(err)
}

// notNil drops the error that stands for nil: nothing is there, or SET NX has
// found something.
func notNil(err error) error {
	if valkey.IsValkeyNil(err) {
		return nil
	}
	return err
}
