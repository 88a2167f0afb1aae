package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// store is what package cas asks of the cluster.
type store struct {
	*voting
	seen     *cas.Clock
	sessions sessions
	losers   losers
	batcher  *batcher
}

// under is what a Save compares: the key of a stripe as it was read or written.
type under struct {
	cas.Timed
	mod      int64 // its revision, 0 if it is not there
	standing *standing
	asleep   map[string]bool // clients that were found not to listen
}

// maxRecord bounds what a key has, in bytes. etcd refuses a request of more than 1.5 MiB, by
// default (--max-request-bytes).
const maxRecord = 512 << 10

// looks are the reads of a stripe, of what says that the store votes, and of what else a write
// compares.
func (k keys) looks(stripe int, in []*session, clients []string) []clientv3.Op {
	gets := []clientv3.Op{clientv3.OpGet(k.stripe(stripe)), clientv3.OpGet(k.meta(), clientv3.WithKeysOnly()),
		clientv3.OpGet(k.stamp())}
	for _, session := range in {
		gets = append(gets, clientv3.OpGet(k.session(session.id), clientv3.WithCountOnly()))
	}
	for _, client := range clients {
		gets = append(gets, clientv3.OpGet(k.wake(client), clientv3.WithCountOnly()))
	}
	return gets
}

// Load implements cas.Store.
func (s *store) Load(ctx context.Context, stripe int) (cas.Loaded, error) {
	st, f, err := s.stand(ctx)
	if err != nil {
		return cas.Loaded{}, err
	}
	if st == nil { // no lease outlives an admission
		return cas.Loaded{Server: f.Server, Terms: f.Terms, State: under{Timed: cas.NewTimed(time.Now())}}, nil
	}
	if err := s.admission.Serves(st.server); err != nil { // another node may lead there by now
		return cas.Loaded{}, err
	}
	u, is := s.losers.take(stripe, st)
	if !is {
		o, err := s.read(ctx, s.keys.looks(stripe, nil, nil)...)
		if err == nil {
			u, err = s.found(st, stripe, responses(o))
		}
		if err != nil {
			return cas.Loaded{}, err
		}
	}
	l := cas.Loaded{Record: u.Record, Server: st.server, Terms: st.terms, Votes: true, State: u}
	return l, s.seen.Load(&l, stripe, u.Timed)
}

// found reads the answers to looks.
func (s *store) found(st *standing, stripe int, got []*clientv3.GetResponse) (u under, err error) {
	u = under{Timed: cas.NewTimed(time.Now()), standing: st}
	if len(got[1].Kvs) == 0 || got[1].Kvs[0].ModRevision != st.mod ||
		len(got[2].Kvs) == 0 || string(got[2].Kvs[0].Value) != st.memory {
		s.forget(st)
		return u, cas.ErrConflict
	}
	if kvs := got[0].Kvs; len(kvs) > 0 {
		u.mod = kvs[0].ModRevision
		if u.Timed, err = s.parse(kvs[0]); err == nil && u.Memory != st.memory {
			u.Timed = u.Without(st.memory)
		}
	}
	return u, err
}

func (c *cluster) parse(kv *mvccpb.KeyValue) (z cas.Timed, err error) {
	if z, err = cas.ParseTimed(kv.Value); err != nil {
		err = fmt.Errorf("%.100q: %w", kv.Key, err)
	}
	return z, err
}

// losers are what a transaction found that was not carried out, for the next Load: so that costs
// nothing. It may be old, as what this process has written last.
type losers struct {
	mu  sync.Mutex
	all map[int]loser
}

type loser struct {
	under
	at time.Duration
}

const loserLife = 100 * time.Millisecond

func (l *losers) take(stripe int, st *standing) (u under, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, is := l.all[stripe]
	delete(l.all, stripe)
	return one.under, is && one.standing == st && clock.Now()-one.at < loserLife
}

func (l *losers) put(stripe int, u under) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil || len(l.all) > node.Stripes/4 {
		l.all = make(map[int]loser)
	}
	l.all[stripe] = loser{u, clock.Now()}
}

// Save implements cas.Store: one transaction, which is sent once. It writes nothing to a store that
// does not vote, whose leases and waiters do not count.
func (s *store) Save(ctx context.Context, stripe int, r cas.Record, over cas.Loaded) (cas.Loaded, error) {
	u := over.State.(under)
	if !over.Votes {
		return over, nil
	}
	if s.now() != u.standing {
		return over, cas.ErrConflict
	}
	next, in, changed, err := s.next(ctx, u, r, over.Clock)
	if err != nil {
		return over, node.NotSent(err)
	}
	t := txn{
		If:   []clientv3.Cmp{same(s.keys.stripe(stripe), u.mod)},
		Then: []clientv3.Op{clientv3.OpPut(s.keys.stripe(stripe), string(next.Text()))},
	}
	for _, session := range in {
		t.If = append(t.If, there(s.keys.session(session.id)))
	}
	clients, later := t.tell(s.keys, r.Fresh)
	alone := len(clients)+len(r.Queues)+len(over.Queues) > 0
	if alone { // others are at it: to lose costs no other request
		t.Else = s.keys.looks(stripe, in, clients)
	}
	o, err := s.batcher.commit(ctx, stripe, u.standing, t, !alone)
	if err == nil && !o.Succeeded {
		if !alone {
			if o, err = s.read(ctx, s.keys.looks(stripe, in, clients)...); err != nil && len(changed) == 0 {
				return over, cas.ErrConflict
			} else if err != nil {
				s.seen.Saved(stripe, next, u.Timed, changed, false)
				return over, fmt.Errorf("it was refused, and may have been carried out before: %v", err)
			}
		}
		got := responses(o)
		kvs := got[0].Kvs
		if len(changed) == 0 || len(kvs) == 0 || string(kvs[0].Value) != string(t.Then[0].ValueBytes()) {
			return over, s.lost(stripe, u.standing, in, clients, got)
		}
		err = errTwice
	}
	if err == nil {
		err = describe(ctx, s.stands(ctx, u.standing))
	}
	if err == nil || !errors.Is(err, node.ErrNotSent) {
		s.seen.Saved(stripe, next, u.Timed, changed, err == nil)
	}
	if err != nil {
		return over, err
	}
	for some := range slices.Chunk(later, mostTold) {
		s.commit(ctx, txn{Then: some}) // a client that misses it asks by itself
	}
	over.Record, over.Clock, over.Closer = r, next.At, nil
	over.State = under{Timed: next, mod: o.Header.Revision, standing: u.standing}
	return over, nil
}

// errTwice is of a transaction that a client's library or a proxy has repeated: no other process
// writes in its session.
var errTwice = errors.New("it was sent twice, and carried out: it is not known since when")

// next returns what is written over a record, and the sessions in which that is.
func (s *store) next(ctx context.Context, u under, r cas.Record, now time.Duration) (next cas.Timed, in []*session,
	changed []cas.Written, err error) {
	var failed error
	next, changed, err = u.Next(r, u.standing.memory, now, func(w cas.Written) string {
		for _, session := range in {
			if session.covers(w.Ends - now) {
				return session.id
			}
		}
		session, err := s.sessions.get(ctx, w.Ends-now)
		if err != nil {
			failed = err
			return ""
		}
		in = append(in, session)
		return session.id
	})
	return next, in, changed, errors.Join(err, failed)
}

// mostTold is how many clients are told something in one transaction.
const mostTold = 32

// tell writes notices to the clients that they are for, if these listen, and returns the clients.
// Later is for the others.
func (t *txn) tell(k keys, notices []string) (clients []string, later []clientv3.Op) {
	told := map[string]string{}
	for _, text := range notices {
		told[engine.ClientOf(text)] += text + "\n"
	}
	for client, text := range told {
		put := clientv3.OpPut(k.wake(client), text, clientv3.WithIgnoreLease())
		if len(clients) == mostTold {
			later = append(later, clientv3.OpTxn([]clientv3.Cmp{there(k.wake(client))}, []clientv3.Op{put}, nil))
			continue
		}
		clients = append(clients, client)
		t.If = append(t.If, there(k.wake(client)))
		t.Then = append(t.Then, put)
	}
	return clients, later
}

// lost takes what a transaction found that was not carried out.
func (s *store) lost(stripe int, st *standing, in []*session, clients []string, got []*clientv3.GetResponse) error {
	u, err := s.found(st, stripe, got[:3])
	got = got[3:]
	for i, session := range in {
		if got[i].Count == 0 {
			session.gone.Store(true)
		}
	}
	for i, client := range clients {
		if got[len(in)+i].Count == 0 {
			if u.asleep == nil {
				u.asleep = map[string]bool{}
			}
			u.asleep[client] = true
		}
	}
	if err == nil {
		s.losers.put(stripe, u)
	}
	return cas.ErrConflict // or the next Load says more
}

// Reachable implements cas.Teller: a client that listens has a key. That it is there is compared
// in the transaction.
func (s *store) Reachable(_ context.Context, over cas.Loaded, client string) (bool, error) {
	return rule.CheckClient(client) == nil && !over.State.(under).asleep[client], nil
}

// pages reads the keys of all stripes, some at a time.
func (c *cluster) pages(ctx context.Context, yield func(kv *mvccpb.KeyValue) (bool, error)) error {
	from, end := c.keys.stripes(), clientv3.GetPrefixRangeEnd(c.keys.stripes())
	for {
		o, err := c.read(ctx, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(atOnce),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend)))
		if err != nil {
			return err
		}
		page := responses(o)[0]
		for _, kv := range page.Kvs {
			if more, err := yield(kv); !more || err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
	}
}

// stripesOf reads all stripes.
func (s *store) stripesOf(ctx context.Context, yield func(stripe int, u under) bool) error {
	return s.pages(ctx, func(kv *mvccpb.KeyValue) (bool, error) {
		z, err := s.parse(kv)
		stripe, is := cas.ParseStripe(strings.TrimPrefix(string(kv.Key), s.keys.stripes()))
		if err == nil && !is {
			err = engine.Misconfiguredf("%.100q: its name is not that of a stripe: it was written by hand", kv.Key)
		}
		return err == nil && yield(stripe, under{Timed: z, mod: kv.ModRevision}), err
	})
}

// List implements cas.Store. What is in a session that has ended is over, also for a client that
// was never here before.
func (s *store) List(ctx context.Context, yield func(stripe int, l cas.Loaded) bool) error {
	st, _, err := s.stand(ctx)
	if err != nil {
		return err
	}
	var failed error
	known := map[string]bool{} // of sessions: whether they have ended
	ended := func(session string) (bool, error) {
		if gone, is := known[session]; is {
			return gone, nil
		}
		gone, err := s.ended(ctx, st.memory, []string{session})
		if err == nil {
			known[session] = gone[0]
		}
		return err == nil && gone[0], err
	}
	err = s.stripesOf(ctx, func(stripe int, u under) bool {
		l := cas.Loaded{Votes: st != nil}
		if st == nil || u.Memory != st.memory {
			l.Record.Register = u.Register
			return yield(stripe, l)
		}
		failed = s.seen.Listed(&l, stripe, u.Timed, ended)
		return failed == nil && yield(stripe, l)
	})
	return errors.Join(err, failed)
}

// Registers implements cas.Store.
func (s *store) Registers(ctx context.Context) (r node.Registers, err error) {
	f, err := s.Facts(ctx)
	if err != nil {
		return r, err
	}
	r = node.Registers{Server: f.Server, Memory: f.Memory, Empty: f.Empty, MaxTTL: f.Terms.MaxTTL,
		Members: f.Terms.Members, Tokens: map[int]fence.Token{}}
	err = s.stripesOf(ctx, func(stripe int, u under) bool { r.Tokens[stripe] = u.Register; return true })
	if err != nil {
		return r, err
	}
	// They are worth what the mark says, if it was there when they had been read.
	o, err := s.read(ctx, clientv3.OpGet(s.keys.meta(), clientv3.WithKeysOnly()))
	if err != nil {
		return r, err
	}
	l, kvs := f.State.(*looked), responses(o)[0].Kvs
	r.Admitted = f.Votes && len(kvs) > 0 && kvs[0].ModRevision == l.meta.mod
	return r, s.stands(ctx, &standing{mod: l.meta.mod, memory: f.Memory, dials: l.dials, lives: l.lives})
}

// Raise implements admit.Store. Leases stay as they are.
func (s *store) Raise(ctx context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	for {
		own := map[int]under{}
		if err := s.stripesOf(ctx, func(stripe int, u under) bool { own[stripe] = u; return true }); err != nil {
			return err
		}
		var t txn
		size := 0
		for stripe, token := range tokens {
			u, is := own[stripe]
			if !is {
				u.Timed = cas.NewTimed(time.Now())
			}
			if token > u.Register && len(t.Then) < atOnce && size < maxRecord {
				text := u.Raised(token).Text()
				size += len(text)
				t.If = append(t.If, same(s.keys.stripe(stripe), u.mod))
				t.Then = append(t.Then, clientv3.OpPut(s.keys.stripe(stripe), string(text)))
			}
		}
		if len(t.Then) == 0 {
			return nil
		}
		if _, err := s.commit(ctx, t); err != nil {
			return err
		}
	}
}
