package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockClient does not wait: by default Obtain tries once, and it is only
// measured where nobody else has the lock.
type redislockClient struct {
	locker *redislock.Client
	redis  *redis.Client
	ttl    time.Duration
}

func openRedislock(b *bench) (client, error) {
	r := redis.NewClient(&redis.Options{Addr: b.addresses()[0]})
	return &redislockClient{redislock.New(r), r, b.theirTTL()}, nil
}

func (c *redislockClient) acquire(ctx context.Context, name string) (func() error, error) {
	lock, err := c.locker.Obtain(ctx, "redislock:"+name, c.ttl, nil)
	if err != nil {
		return nil, err
	}
	return func() error { return lock.Release(context.Background()) }, nil
}

func (c *redislockClient) close() { c.redis.Close() }
