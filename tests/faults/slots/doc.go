// Package slots has histories on a real Valkey or Redis Cluster. Client processes lock by the slot
// of one hash tag, which comes to other members. There are no proxies, since MOVED names the
// members themselves. So the package has its own runner, and shares clients, resource and checkers.
package slots
