//go:build unix

package testserver

import (
	"errors"
	"net"
	"strings"
)

// Slot is a slot of a cluster.
type Slot struct {
	Key string    // one of its keys
	All []*Server // the primaries, then the replica of each if there are any
}

// Owner waits until a server serves the slot, and returns that.
func (s Slot) Owner() (owner *Server) {
	s.All[0].t.Helper()
	s.All[0].until(func() error {
		if owner = Owner(s.Key, s.All...); owner == nil {
			return errors.New("no server has the slot")
		}
		return nil
	})
	return owner
}

// Replica returns the replica of one of the first primaries, or the first primary of a replica.
func (s Slot) Replica(of *Server) *Server {
	for i, server := range s.All {
		if server == of {
			return s.All[(i+len(s.All)/2)%len(s.All)]
		}
	}
	panic("testserver: no server of the cluster")
}

// Other returns one of the first three primaries that is not this one.
func (s Slot) Other(than *Server) *Server {
	for _, server := range s.All[:3] {
		if server != than {
			return server
		}
	}
	panic("testserver: there is no other")
}

// Number returns the slot's number.
func (s Slot) Number() string { return s.All[0].Do("CLUSTER", "KEYSLOT", s.Key) }

// Assign gives the slot to a primary by hand, whatever keys there are.
func (s Slot) Assign(to *Server) {
	to.t.Helper()
	number := s.Number()
	to.Do("CLUSTER", "SETSLOT", number, "NODE", to.Do("CLUSTER", "MYID"))
	to.until(func() error {
		to.Do("CLUSTER", "DELSLOTS", number)
		to.Do("CLUSTER", "ADDSLOTS", number)
		to.Do("CLUSTER", "BUMPEPOCH")
		if said := to.Do("EXISTS", s.Key); said != "0" && said != "1" {
			return errors.New(said)
		}
		return nil
	})
}

// Reshard moves the slot with its keys to another primary, as the servers' own command does. It
// moves some keys at a time, with a pause after each time. They come as the Operator, which the
// other primary has from then on.
func (s Slot) Reshard(from, to *Server, pause func()) {
	from.t.Helper()
	number, id := from.Do("CLUSTER", "KEYSLOT", s.Key), to.Do("CLUSTER", "MYID")
	to.must("OK", "ACL", "SETUSER", Operator, "on", "nopass", "~*", "&*", "+@all")
	to.must("OK", "CLUSTER", "SETSLOT", number, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.must("OK", "CLUSTER", "SETSLOT", number, "MIGRATING", id)
	host, port, err := net.SplitHostPort(to.Addr())
	if err != nil {
		from.t.Fatal(err)
	}
	from.until(func() error {
		keys := strings.Fields(strings.Trim(from.Do("CLUSTER", "GETKEYSINSLOT", number, "3"), "[]"))
		if len(keys) == 0 {
			return nil
		}
		move := []string{"MIGRATE", host, port, "", "0", "5000", "AUTH2", Operator, "any", "KEYS"}
		said := from.Do(append(move, keys...)...)
		pause()
		return errors.New("keys are left: " + said)
	})
	to.must("OK", "CLUSTER", "SETSLOT", number, "NODE", id)
	from.must("OK", "CLUSTER", "SETSLOT", number, "NODE", id)
}
