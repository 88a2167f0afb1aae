package valkeynode

import (
	"github.com/fenlock/fenlock/node/respnode"

	"github.com/fenlock/fenlock/node/engine"
)

// Guard writes keys on a Valkey or Redis server and refuses the write of a holder that is
// not the newest.
type Guard = respnode.Guard

// OpenGuard returns a guard for the keys of the server at a URL, which has the
// form of Open's. It connects when it is first used.
func OpenGuard(rawURL string, with ...Option) (*Guard, error) {
	o := apply(with)
	if o.prefixSet || o.name != nil {
		return nil, engine.Invalidf("a guard has no prefix and no name: it writes the keys that it is told")
	}
	server, err := o.parse(rawURL)
	if err != nil {
		return nil, err
	}
	if server.Tag != "" {
		return nil, engine.Invalidf("a guard writes any key of one server, and the slot of a cluster's node has some: name a server that is in no cluster")
	}
	conn, known, err := o.connect(server)
	if err != nil {
		return nil, err
	}
	return respnode.NewGuard(conn, known), nil
}
