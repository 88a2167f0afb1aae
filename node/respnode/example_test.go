package respnode_test

import (
	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/respnode"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// open makes a Locker of servers that are reached by a client library of one's own.
func open(links map[string]resp.Link) (*fenlock.Locker, error) {
	var nodes []fenlock.Node
	for address, link := range links {
		n, err := respnode.New(link, respnode.Server{Name: address, Member: address, Prefix: respnode.DefaultPrefix})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return fenlock.New(fenlock.Config{Nodes: nodes})
}

func ExampleNew() {
	_ = open
}
