package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// lookTimeout bounds connecting to a server and looking at it, which goes on
// in the background when the request that began it has given up.
const lookTimeout = 2 * time.Second

// worthLooking is the number of requests that promise something from which on one
// INFO more is cheaper than one in each script.
const worthLooking = 3

// Voting answers whether the server that a node leads to may vote. Safe for
// concurrent use.
type Voting struct {
	*admit.Admission
	store *store

	server    atomic.Pointer[Server] // as it was looked at last
	looking   task
	lookError atomic.Pointer[error] // of the last look at the server

	patience context.Context // ended by Finish
	finish   context.CancelFunc
}

// New returns the voting of a node, with its connection and its keys.
func New(self node.Node, link resp.Link, keys *command.Keys, errors command.Errors) *Voting {
	v := &Voting{store: &store{link: link, keys: keys, errors: errors}}
	v.Admission = admit.New(self, v.store, admit.Pause)
	v.patience, v.finish = context.WithCancel(context.Background())
	return v
}

// Finish has no caller wait any more for a server to be connected to or admitted. A caller that
// does is told context.Canceled, and nothing was executed.
func (v *Voting) Finish() {
	v.finish()
	v.Admission.Finish()
}

// waiting returns a context for a wait that Finish ends too. End frees it.
func (v *Voting) waiting(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(v.patience, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Server is the run of a server that was looked at, over one connection. It can be a node, and is
// no other node of the group. Whether it is admitted, its scripts say.
type Server struct {
	voting *Voting
	dial   uint64
	RunID  string // of the server; another after each start
	replID string
	terms  admit.Terms // as recorded
	stale  atomic.Bool // it has to be looked at again
	agreed atomic.Bool // the terms were compared with the group's: not for each request
}

// Marked reports whether a mark of admission is of what the server was when it was looked at.
func (s *Server) Marked(mark string) bool { return mark == s.replID }

// Ready returns the server if requests can be sent to it at once, else nil.
func (v *Voting) Ready() *Server {
	if s := v.server.Load(); s != nil && s.current() && s.Founded() && v.check(s) == nil {
		return s
	}
	return nil
}

// Look returns the server, after looking at it if that was not done over this connection, and
// refuses one that this client must not use.
func (v *Voting) Look(ctx context.Context) (*Server, error) {
	s, err := v.look(ctx)
	if err == nil {
		err = v.check(s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (v *Voting) look(ctx context.Context) (*Server, error) {
	if s := v.server.Load(); s == nil || !s.current() {
		var end func()
		ctx, end = v.waiting(ctx)
		defer end()
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s := v.server.Load(); s != nil && s.current() {
			return s, nil
		}
		ended, err := v.looking.do(ctx, v.store.link, lookTimeout, func(ctx context.Context) error {
			err := v.store.link.Identify(ctx, v.store.keys.Terms(), func(info string, recorded resp.Reply, dial uint64) error {
				f, err := command.ParseInfo(info)
				if err != nil {
					return err
				}
				terms, err := command.ParseTerms(recorded)
				if err == nil {
					v.server.Store(&Server{voting: v, dial: dial, RunID: f.RunID, replID: f.ReplID, terms: terms})
				}
				return err
			})
			err = v.store.errors.Describe(err)
			v.lookError.Store(&err)
			return err
		})
		if err == nil {
			continue
		}
		// A server that takes longer to refuse than a request may last: what it
		// said last time is worth more than "no answer".
		if last := v.lookError.Load(); !ended && last != nil && errors.Is(*last, node.ErrMisconfigured) {
			return nil, *last
		}
		return nil, err
	}
}

// Founded reports whether the server has recorded what all clients agree on. Before, a
// client that disagrees may be the first to be admitted, and this one would not hear.
func (s *Server) Founded() bool { return s.terms.MaxTTL != 0 || !s.voting.Joined() }

// Found admits a server that has nothing recorded, as Admit does, and has it looked at
// again.
func (v *Voting) Found(ctx context.Context, s *Server) (node.Absence, error) {
	out, err := v.Admit(ctx)
	s.stale.Store(true)
	return out, err
}

func (s *Server) current() bool { return !s.stale.Load() && s.voting.store.link.Up(s.dial) }

// check refuses a server whose group is another one than this client's, and one that is another
// node of the group. Addresses do not tell, run ids do.
func (v *Voting) check(s *Server) error {
	if !s.agreed.Load() && v.Joined() {
		if err := v.Check(s.terms); err != nil {
			s.stale.Store(true) // the record may be set right
			return v.store.errors.Describe(err)
		}
		s.agreed.Store(true)
	}
	return v.Serves(s.RunID)
}

// Registers returns all registers, and whether they count: also those of another group,
// which has to be known.
func (v *Voting) Registers(ctx context.Context) (r node.Registers, err error) {
	s, err := v.look(ctx)
	if err == nil {
		err = v.Serves(s.RunID)
	}
	if err != nil {
		return r, err
	}
	read := func() (command.Facts, map[int]fence.Token, error) {
		return v.store.keys.ParseRegisters(v.store.link.DoMulti(ctx, v.store.keys.Registers()...))
	}
	f, tokens, err := read()
	if err == nil && f.Candidate == "" && v.Joined() {
		// Its memory has to keep its name until it is admitted. If this fails, it gets one then.
		v.store.link.Do(ctx, v.store.keys.Candidate(rand.Text()))
		f, tokens, err = read()
	}
	if err == nil && f.Marked != "" && f.Marked != f.ReplID && f.WasDurable {
		// It may have been started again with all that it had. To take it for lost would let
		// another server, which did lose its memory, be admitted without a third that cannot be
		// reached.
		err = errors.New("whether it has its memory is known when it is asked for a lock next")
	}
	if err != nil {
		return r, err
	}
	return node.Registers{Server: f.RunID, Memory: f.Memory(), Admitted: f.Marked == f.ReplID,
		Empty: f.Empty, MaxTTL: f.MaxTTL, Members: f.Members, Tokens: tokens}, nil
}

// Proof tells which answers to requests that are sent together are those of a server
// that may vote.
//
// Whether a server is still what was admitted can be asked by each script, or once after many of
// them, on the same connection. Both prove the same. In the second case the requests carry the
// replication id that the server had before they were sent. Their scripts compare the mark of
// admission with it. A server has a new id, of random digits, whenever it becomes a primary. So one
// that is a primary afterwards, with an id that was known before, has been one all the time, with
// that id.
//
// If it is not, and the old mark is there, a server that may have forgotten leases has carried out
// the requests all the same. They may have made leases, which have ended when the server is
// admitted: that removes the mark before it begins to count. And they may have raised registers,
// which does no harm. Their answers do not count.
type Proof struct {
	server *Server
	// ReplID is what the scripts compare the mark of admission with, or "" if each
	// looks at the server. Unless that is empty, Command has to follow the requests.
	ReplID string
	doubt  error
}

// Prove begins a proof, for so many requests that promise something. Where a request may travel
// over any of several connections, its script does not know which server was looked at. So the id
// is always asked for.
func (s *Server) Prove(promises int) Proof {
	p := Proof{server: s}
	if promises >= worthLooking || promises > 0 && s.voting.store.link.Pooled() {
		p.ReplID = s.replID
	}
	return p
}

// Command makes the command that follows the requests.
func (p *Proof) Command() resp.Command {
	return resp.Command{"INFO", "replication"}
}

// Read takes the reply to Command.
func (p *Proof) Read(info string, err error) {
	if err == nil && !(strings.Contains(info, "role:master\r\n") &&
		strings.Contains(info, "master_replid:"+p.ReplID+"\r\n")) {
		err = errors.New("it is a replica, or its replication history has changed")
	}
	if err != nil {
		p.doubt = fmt.Errorf("whether the server may vote is not known: %w", err)
	}
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
)

// Judge returns what the answer to a request is worth, as command.Parse has read it, or
// why it does not count. A release promises nothing, so it may come from any server.
func (p *Proof) Judge(op node.Op, notAdmitted bool, err error) (Standing, error) {
	if p.doubt != nil || notAdmitted && p.ReplID != "" {
		p.server.stale.Store(true) // its id is another one, perhaps
	}
	if err == nil && !notAdmitted && op != node.Release {
		err = p.doubt
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
