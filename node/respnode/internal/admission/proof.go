package admission

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// worthLooking is the number of requests that promise something from which on one
// INFO more is cheaper than one in each script.
const worthLooking = 3

// longestWait bounds a Wait: meanwhile the connection answers nothing else.
const longestWait = time.Second

// Proof tells which answers to requests that are sent together are those of a server
// that may vote.
//
// Whether a server is still what was admitted can be asked by each script, or once after many of
// them, on the same connection. Both prove the same. In the second case the requests carry the
// mark that the server had before they were sent. Their scripts compare the mark of
// admission with it. A server has a new id, of random digits, whenever it becomes a primary. So one
// that is a primary afterwards, with an id that was known before, has been one all the time, with
// that id.
//
// If it is not, and the old mark is there, a server that may have forgotten leases has carried out
// the requests all the same. They may have made leases, which have ended when the server is
// admitted: that removes the mark before it begins to count. And they may have raised registers,
// which does no harm. Their answers do not count.
//
// Where replicas must have what is promised, a WAIT follows the requests on the same connection. If
// too few confirm, the acceptances are unknown, and the refusals count.
type Proof struct {
	server *Server
	// Mark is what the scripts compare the mark of admission with, or "" if each
	// looks at the server.
	Mark   string
	wait   bool
	doubt  error // why no answer counts
	unseen error // why no acceptance counts
}

// Prove begins a proof, for so many requests that promise something. Where a request may travel
// over any of several connections, its script does not know which server was looked at. So the id
// is always asked for.
func (s *Server) Prove(promises int) Proof {
	p := Proof{server: s}
	if promises >= worthLooking || promises > 0 && (s.voting.store.link.Pooled() || !s.seen.None || s.mark != s.replID) {
		p.Mark = s.mark
	}
	p.wait = promises > 0 && s.voting.witness.Needs(s.seen) > 0
	if p.wait {
		p.Mark = s.mark
	}
	return p
}

// proveRead begins the proof of what was only read: that the server has not been replaced. It is
// void unless there are replicas.
func (s *Server) proveRead(joined bool) Proof {
	p := Proof{server: s}
	if joined && s.seen.Marked && s.voting.witness.Needs(s.seen) > 0 {
		p.Mark, p.wait = s.mark, true
	}
	return p
}

// Append appends what has to follow the requests on their connection. Their callers wait for at
// most a time, and are told in time that replicas are missing.
func (p *Proof) Append(commands []resp.Command, most time.Duration) []resp.Command {
	if p.wait {
		commands = append(commands, command.Wait(p.server.voting.witness.Needs(p.server.seen), min(most/4*3, longestWait)))
	}
	if p.Mark != "" {
		commands = append(commands, resp.Command{"INFO", "replication"})
	}
	return commands
}

// Read takes the replies to all that was sent, of which the last are those to what was
// appended.
func (p *Proof) Read(replies []resp.Reply) {
	if p.Mark == "" {
		return
	}
	info, err := replies[len(replies)-1].ToString()
	if err == nil && !(strings.Contains(info, "role:master\r\n") &&
		strings.Contains(info, "master_replid:"+p.server.replID+"\r\n")) {
		err = errors.New("it is a replica, or its replication history has changed")
	}
	if err != nil {
		p.doubt = fmt.Errorf("whether the server may vote is not known: %w", p.server.voting.store.errors.Describe(err))
	}
	seen := p.server.seen
	seen.Replicas = command.ReplicasOf(info)
	confirmed, unknown := int64(0), error(nil)
	if p.wait {
		if confirmed, unknown = replies[len(replies)-2].AsInt64(); unknown != nil {
			unknown = p.server.voting.store.errors.Describe(unknown)
		}
	}
	p.unseen = p.server.voting.witness.Counts(seen, confirmed, unknown)
}

// Standing is what an answer is worth.
type Standing uint8

const (
	// Counts: it counts, and an error is one of the request.
	Counts Standing = iota
	// NotAdmitted: the server executed nothing. It can be sent once more, after Admit.
	NotAdmitted
	// Elsewhere: it came over a connection that was made since the server was looked
	// at, and that may lead to another one. It counts if Look has no error.
	Elsewhere
	// Redirected: another member of the cluster has the slot, and nothing was executed. It can be
	// sent once more, after Look. The error says why.
	Redirected
)

// Judge returns what the answer to a request is worth, as command.Parse has read it, or
// why it does not count. A release promises nothing, so it may come from any server.
func (p *Proof) Judge(op node.Op, answer node.Answer, notAdmitted bool, err error) (Standing, error) {
	if p.doubt != nil || p.unseen != nil || notAdmitted && p.Mark != "" {
		p.server.stale.Store(true) // its id is another one, perhaps
	}
	if p.server.voting.store.keys.Redirected(err) {
		p.server.stale.Store(true)
		return Redirected, err
	}
	if err == nil && !notAdmitted && op != node.Release {
		if err = p.doubt; err == nil && accepts(op, answer) {
			err = p.unseen
		}
	}
	switch {
	case notAdmitted:
		return NotAdmitted, nil
	case err != nil:
		return Counts, err
	case p.server.voting.store.link.Dial() != p.server.dial:
		return Elsewhere, nil
	}
	return Counts, nil
}
