// Package testserver starts real servers for tests: Valkey, Redis, PostgreSQL, pgbouncer, MariaDB,
// etcd, ZooKeeper, NATS and Versity's S3 gateway. Each has a port and a folder of its own, so that
// a test can kill, pause, restart and wipe it.
//
// A server that is not installed fails the test. It is never skipped, since a suite that skips what
// it is about passes for the wrong reason. etcd's, NATS's and the gateway are built from their
// modules (tools/etcd, tools/nats, tools/versitygw), which needs Go's proxy or cache.
//
// Servers listen on the loopback address only and inherit the environment of the
// test (t.Setenv reaches them). They are gone when the test ends, and also when
// the test binary is killed. Programs that are no tests use an Outside.
package testserver
