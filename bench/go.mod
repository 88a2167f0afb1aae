module github.com/fenlock/fenlock/bench

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/fenlock/fenlock v0.1.0
	github.com/fenlock/fenlock/node/valkeynode v0.1.0
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/valkey-io/valkey-go v1.0.79
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/rueidis/rueidiscompat v1.0.69 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

// Only tests of redsync import it, but "go mod tidy" wants it, and the module
// proxy in use does not serve this version. Drop the line where it does.
exclude github.com/redis/rueidis/rueidiscompat v1.0.79
