// Package etcd has the version of etcd's server that tests start, and of its utility, as tools of
// this module. It is a module of its own, and in no workspace, because the server requires more
// than all of fenlock does. To ask where it is builds it:
//
//	GOWORK=off go -C tools/etcd tool -n go.etcd.io/etcd/server/v3
package etcd
