// Package slots has histories on a real Valkey or Redis Cluster: client processes lock by the slot
// of one hash tag, and the slot comes to other members. It has no proxies, since MOVED names the
// members themselves. So it has a runner of its own, and shares clients, resource and checkers.
package slots
