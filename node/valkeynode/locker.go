package valkeynode

import "github.com/fenlock/fenlock"

// OpenLocker opens a node for each URL and makes a Locker of them, with the defaults of
// fenlock.Config. It sends nothing: a server that is down now is no reason to fail. Locker.Close
// closes the nodes. An error matches fenlock.ErrInvalid, and leaves nothing open. What needs a
// Config of its own, a TTL or a Logger, calls OpenAll and fenlock.New.
func OpenLocker(urls ...string) (*fenlock.Locker, error) {
	nodes, err := OpenAll(urls...)
	if err != nil {
		return nil, err
	}
	l, err := fenlock.New(fenlock.Config{Nodes: nodes})
	if err != nil {
		for _, n := range nodes {
			n.Close()
		}
		return nil, err
	}
	return l, nil
}
