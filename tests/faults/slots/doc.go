// Package slots has histories on a store that lives on in other servers. It is a slot of a real
// Valkey or Redis Cluster, or a primary under Sentinel. Client processes lock while another member
// gets the slot, or a replica is promoted. There are no proxies, since MOVED and sentinels
// name the servers themselves. So the package has its own runner, and shares clients, resource and
// checkers. Each server is a host of a network that parts.
package slots
