package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdPatience is how long a call to etcd may take where a figure sets no limit, or
// a longer one. Elections included, it takes seconds at the worst.
const etcdPatience = time.Minute

// openEtcd opens one session, as etcd's documentation does it: the session is the holder. Two
// acquisitions of ONE name by one client do not exclude each other, therefore; in the figures that
// have this contender, a client's lockers have a name each, and who waits has a client of its own.
func openEtcd(b *bench) (client, error) {
	session, end, err := openSession(b)
	if err != nil {
		return nil, err
	}
	lock := func(ctx context.Context, name string) (func() error, error) {
		ctx, cancel := context.WithTimeout(ctx, etcdPatience)
		defer cancel()
		m := concurrency.NewMutex(session, "/bench/"+name)
		if err := m.Lock(ctx); err != nil {
			return nil, err
		}
		return func() error {
			ctx, cancel := context.WithTimeout(context.Background(), etcdPatience)
			defer cancel()
			return m.Unlock(ctx)
		}, nil
	}
	return library{lock, end}, nil
}

// openSession opens one session of a client of its own, on as many members as the others have
// servers.
func openSession(b *bench) (session *concurrency.Session, end func(), err error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: b.etcd.serve(len(b.servers)), Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	// A session's context is for its whole life, so it cannot have a deadline.
	ctx, cancel := context.WithCancel(c.Ctx())
	late := time.AfterFunc(etcdPatience, cancel)
	ttl := int((b.theirTTL() + time.Second - 1) / time.Second) // whole seconds, upwards
	session, err = concurrency.NewSession(c, concurrency.WithTTL(ttl), concurrency.WithContext(ctx))
	if !late.Stop() {
		err = errors.Join(err, fmt.Errorf("no session within %v", etcdPatience))
	}
	if err != nil {
		cancel()
		c.Close()
		return nil, nil, err
	}
	return session, func() {
		session.Close() // revokes the lease, which it tries for as long as that may last
		cancel()
		c.Close()
	}, nil
}
