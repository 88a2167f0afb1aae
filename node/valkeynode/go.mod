module github.com/fenlock/fenlock/node/valkeynode

go 1.25.0

require github.com/fenlock/fenlock v0.1.0

require github.com/valkey-io/valkey-go v1.0.79

require golang.org/x/sys v0.47.0 // indirect
