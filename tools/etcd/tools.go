// Package etcd has the version of etcd's server that tests start, and of its utility, as tools of this
// module: a module of its own, and in no workspace, because the server requires more
// than all of fenlock does. It is built by whoever asks where it is:
//
//	GOWORK=off go -C tools/etcd tool -n go.etcd.io/etcd/server/v3
package etcd
