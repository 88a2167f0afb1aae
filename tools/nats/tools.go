// Package nats has the version of NATS's server that tests start, as a tool of this module. It is a
// module of its own, and in no workspace, because no module of fenlock needs what the server
// requires. To ask where it is builds it:
//
//	GOWORK=off go -C tools/nats tool -n github.com/nats-io/nats-server/v2
package nats
