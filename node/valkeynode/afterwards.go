package valkeynode

import (
	"fmt"
	"strings"

	"github.com/valkey-io/valkey-go"
)

// Whether a server is still what was admitted can be asked by each script, or once
// after many of them, on the same connection. Both prove the same. The requests
// carry the replication id that the server had before they were sent, and their
// scripts compare the mark of admission with it. A server has a new id, of random
// digits, whenever it becomes a primary. So one that is a primary afterwards, with an
// id that was known before, has been one all the time, with that id.
//
// If it is not, the requests were carried out all the same, on a server that may
// have forgotten leases: then they may have made leases there, which end by
// themselves, and raised registers, which does no harm. Their answers do not count.

// worthLooking is the number of requests from which on one INFO more is cheaper
// than one in each script.
const worthLooking = 3

// lookAfterwards returns the command that follows such requests.
func (n *Node) lookAfterwards() valkey.Completed {
	return n.client.B().Info().Section("replication").Build()
}

// sameSince returns nil if the reply to lookAfterwards shows that the server is a
// primary and has the id that it had when it was looked at last.
func (s *server) sameSince(info string, err error) error {
	if err == nil && !(strings.Contains(info, "role:master\r\n") && strings.Contains(info, "master_replid:"+s.replID+"\r\n")) {
		err = errAnotherHistory
	}
	if err != nil {
		return fmt.Errorf("whether the server may vote is not known: %w", err)
	}
	return nil
}

var errAnotherHistory = fmt.Errorf("it is a replica, or its replication history has changed")
