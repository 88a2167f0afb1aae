package admission

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
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

// Voting answers whether the server that a node leads to may vote. Safe for
// concurrent use.
type Voting struct {
	*admit.Admission
	store   *store
	witness Witness

	server    atomic.Pointer[Server] // as it was looked at last
	looking   task
	lookError atomic.Pointer[error] // of the last look at the server

	clusters clusters                 // of the group, if this node is its first
	group    atomic.Pointer[clusters] // of the first node of the group; nil before it is joined
	home     members                  // of the cluster, as the last look has seen it: one at a time

	patience context.Context // ended by Finish
	finish   context.CancelFunc
}

// New returns the voting of a node, with its connection and its keys.
func New(self node.Node, link resp.Link, keys *command.Keys, errors command.Errors, witness Witness) *Voting {
	v := &Voting{witness: witness, store: &store{link: link, keys: keys, errors: errors}}
	v.Admission = admit.New(self, v.store, admit.Pause)
	v.patience, v.finish = context.WithCancel(context.Background())
	return v
}

// Beside tells which node is the first of the group, perhaps this one. Some of the others may be in
// the same cluster.
func (v *Voting) Beside(first *Voting) { v.group.Store(&first.clusters) }

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
	mark   string      // as recorded, if it is of this server; else the replication id
	seen   Seen        // of its replicas
	terms  admit.Terms // as recorded
	waits  atomic.Bool // it lets this client wait for its replicas
	stale  atomic.Bool // it has to be looked at again
	agreed atomic.Bool // the terms were compared with the group's: not for each request

	members members     // of its cluster
	claimed atomic.Bool // the cluster is no other node's
}

// Marked reports whether a mark of admission is of what the server was when it was looked at.
func (s *Server) Marked(mark string) bool {
	of, _ := command.SplitMark(mark)
	return of == s.replID
}

// Ready returns the server if requests can be sent to it at once, else nil.
func (v *Voting) Ready() *Server {
	if s := v.server.Load(); s != nil && s.current() && s.Founded() && v.check(s) == nil &&
		v.witness.Judge(s.seen) == Witnessed && (v.witness.Needs(s.seen) == 0 || s.waits.Load()) {
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
			var found *Server
			err := v.store.link.Identify(ctx, v.store.keys.Terms(), func(info string, recorded resp.Reply, dial uint64) error {
				f, err := v.store.keys.ParseInfo(info)
				if err != nil {
					return err
				}
				terms, mark, err := command.ParseTerms(recorded)
				if err == nil {
					s := &Server{voting: v, dial: dial, RunID: f.RunID, replID: f.ReplID, mark: f.ReplID, terms: terms,
						seen: Seen{Replicas: f.Replicas}}
					if of, known := command.SplitMark(mark); of == f.ReplID {
						s.mark, s.seen.Recorded, s.seen.Marked = mark, known, true
					}
					found = s
				}
				return err
			})
			if err == nil && v.store.keys.Clustered() {
				found.members, err = recognize(ctx, v.store.link, found.dial, v.home)
			}
			if err == nil {
				v.home = found.members
				v.server.Store(found)
			}
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

// Again has the server looked at again before the next request.
func (s *Server) Again() { s.stale.Store(true) }

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
	return v.only(s)
}

// only refuses a server that is another node of the group, or in its cluster.
func (v *Voting) only(s *Server) error {
	if group := v.group.Load(); group != nil && s.members != nil && !s.claimed.Load() {
		if err := group.claim(v.store, s.members); err != nil {
			return err
		}
		s.claimed.Store(true)
	}
	return v.Serves(s.RunID)
}

// Registers returns all registers, and whether they count: also those of another group,
// which has to be known.
func (v *Voting) Registers(ctx context.Context) (r node.Registers, err error) {
	s, err := v.look(ctx)
	if err == nil {
		err = v.only(s)
	}
	if err == nil && v.Joined() {
		s, err = v.Witnessed(ctx, s)
	}
	if err != nil {
		return r, err
	}
	read := func() (command.Facts, map[int]fence.Token, error) {
		commands := v.store.keys.Registers()
		proof := s.proveRead(v.Joined())
		if proof.Mark != "" {
			commands = append(commands, v.store.keys.Touch(s.replID))
		}
		replies, err := v.store.link.DoMulti(ctx, proof.Append(commands, lookTimeout/2)...)
		if err != nil {
			return command.Facts{}, nil, err
		}
		proof.Read(replies)
		f, tokens, err := v.store.keys.ParseRegisters(replies[:4], nil)
		return f, tokens, cmp.Or(err, proof.doubt, proof.unseen)
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
	if f.Clustered() && f.Members == "" {
		f.Members = admit.AnyMembers // a member of a cluster is never new: see FactsOf
	}
	return node.Registers{Server: f.RunID, Memory: f.Memory(), Admitted: f.Marked == f.ReplID,
		Empty: f.Empty, MaxTTL: f.MaxTTL, Members: f.Members, Tokens: tokens}, nil
}
