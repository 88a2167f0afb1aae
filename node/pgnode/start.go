package pgnode

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// The usual request meets a connection of pgx that is idle, and a database that votes. A worker
// sends it as bytes on that connection, with others that are queued. A query of database/sql starts
// goroutines and makes contexts instead. The slow path (conn.go) is for a driver that is not pgx's,
// a pooler, an admission, and an error that says to try again.

// flight is a request that a worker carries out. It is a job.
type flight struct {
	n     *Node
	r     node.Request
	until time.Time // it is not sent after that
	call  node.Call
	asked *asked // call, of a Do
	by    atomic.Pointer[worker]

	a   node.Answer // what a worker found
	err error
}

// errSlow is of a request that was certainly not carried out, and takes the slow path.
var errSlow = errors.New("not the usual request")

// Start implements node.Starter.
func (n *Node) Start(r node.Request, timeout time.Duration, call node.Call) {
	err := rule.CheckShared(r)
	if err == nil && (r.Op < node.Acquire || r.Op > node.Release) {
		err = engine.Invalidf("pgnode: %v cannot be started", r.Op)
	}
	f := &flight{n: n, r: r, until: time.Now().Add(timeout), call: call}
	switch {
	case err != nil:
	case n.fast():
		err = n.workers.add(f)
	default:
		err = n.startSlow(f)
	}
	if err != nil {
		call.Done(node.Answer{}, node.NotSent(n.errorf(r.Op.String(), err)))
	}
}

// startSlow has a request take the slow path, in a goroutine.
func (n *Node) startSlow(f *flight) error {
	return n.closing.Spawn(func() {
		ctx, cancel := context.WithDeadline(n.closing, f.until)
		defer cancel()
		if !f.call.Wanted() {
			f.call.Done(node.Answer{}, node.NotSent(n.errorf(f.r.Op.String(), context.Canceled)))
			return
		}
		f.call.Done(n.doSlow(context.WithValue(ctx, callKey{}, f.call), f.r))
	})
}

// asked is the call of a Do, which waits for it as long as its context lasts.
type asked struct {
	ctx   context.Context
	state atomic.Int32
	done  chan struct{}
	a     node.Answer
	err   error
}

// Wanted is asked before the request is sent. From then on, the outcome is unknown.
func (c *asked) Wanted() bool {
	return c.ctx.Err() == nil && (c.state.CompareAndSwap(undecided, handedOver) || c.state.Load() == handedOver)
}

func (c *asked) Done(a node.Answer, err error) {
	c.a, c.err = a, err
	close(c.done)
}

// doFast carries out a request by a worker. The error matches errSlow if it is for the slow path.
func (n *Node) doFast(ctx context.Context, r node.Request) (node.Answer, error) {
	if !n.fast() {
		return node.Answer{}, errSlow
	}
	c := &asked{ctx: ctx, done: make(chan struct{})}
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(time.Hour)
	}
	f := &flight{n: n, r: r, until: until, call: c, asked: c}
	if err := n.workers.add(f); err != nil {
		return node.Answer{}, unsent(err)
	}
	select {
	case <-c.done:
		return c.a, c.err
	case <-ctx.Done():
	}
	if w := f.by.Load(); w != nil {
		w.until(f, time.Now().Add(finishTimeout))
	}
	if c.state.CompareAndSwap(undecided, givenUp) {
		return node.Answer{}, unsent(ctx.Err())
	}
	return node.Answer{}, ctx.Err()
}

// fast reports whether requests are for the workers. The first request of a node shows it.
func (n *Node) fast() bool { return n.prepares.Load() && !n.unnamed.Load() }

// alone reports whether it is sent with no other: a Do may be given up, and its connection with it.
func (f *flight) alone() bool { return f.asked != nil }

// tell tells what a worker found, or has a request take the slow path.
func (f *flight) tell(w *worker) {
	n, a, err := f.n, f.a, f.err
	switch {
	case f.asked != nil: // Do does the rest
		f.call.Done(a, err)
	case errors.Is(err, errSlow):
		if err = n.startSlow(f); err != nil {
			f.call.Done(node.Answer{}, node.NotSent(n.errorf(f.r.Op.String(), err)))
		}
	default:
		f.call.Done(n.finish(w.life, f.r, a, err))
	}
}

// givenUp returns why a request must not be sent any more.
func (f *flight) givenUp() error {
	switch {
	case f.asked != nil && f.asked.ctx.Err() != nil:
		return unsent(f.asked.ctx.Err())
	case f.asked == nil && !f.call.Wanted():
		return unsent(context.Canceled)
	case !time.Now().Before(f.until):
		return unsent(context.DeadlineExceeded)
	}
	return nil
}

// carry has a worker carry out requests on a connection that the pool has.
func (f *flight) carry(w *worker, jobs []job) {
	batch := make([]*flight, len(jobs))
	for i, j := range jobs {
		batch[i] = j.(*flight)
	}
	if err := f.n.onConnection(w, batch); err != nil {
		for _, f := range batch {
			f.err = err
		}
	}
}

// onConnection returns an error if it did nothing.
func (n *Node) onConnection(w *worker, batch []*flight) error {
	if n.closing.Err() != nil {
		return unsent(engine.ErrClosed)
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	default:
		return errSlow
	}
	if n.db.Stats().Idle == 0 {
		return errSlow // which makes a connection, however long that takes
	}
	until := batch[0].until
	for _, f := range batch {
		if f.until.After(until) {
			until = f.until
		}
	}
	life := w.begin(batch[0], until.Add(finishTimeout))
	defer w.over()
	batch[0].by.Store(w)
	if len(batch) == 1 {
		if err := batch[0].givenUp(); err != nil {
			return err
		}
	}
	conn, err := n.db.Conn(life)
	if err != nil {
		return errSlow
	}
	defer conn.Close()
	conn.Raw(func(of any) error {
		c, ok := of.(*stdlib.Conn)
		if !ok {
			err = errSlow
			return nil
		}
		x := exchange{n: n, w: w, conn: c.Conn()}
		if len(batch) == 1 {
			batch[0].a, batch[0].err = x.carryOut(life, batch[0])
		} else {
			x.together(life, batch)
		}
		if x.broken || c.Conn().IsClosed() {
			return driver.ErrBadConn
		}
		return nil
	})
	return err
}

// exchange is what a worker does on a connection.
type exchange struct {
	n      *Node
	w      *worker
	conn   *pgx.Conn
	broken bool // the connection must not be used any more
}

// carryOut carries out one request.
func (x *exchange) carryOut(life context.Context, f *flight) (node.Answer, error) {
	if x.n.usual(f.r) {
		q := x.n.usualQuery(f.r)
		if err := x.exec(life, f, &q); !errors.Is(err, sql.ErrNoRows) {
			return x.answer(f, &q, err)
		}
	}
	q := x.n.serveQuery(f.r)
	return x.answer(f, &q, x.exec(life, f, &q))
}

// together carries out requests by statements that are sent in one write. Each is a transaction.
func (x *exchange) together(life context.Context, batch []*flight) {
	queries := make([]query, len(batch))
	prepared := make([]*pgconn.StatementDescription, len(batch))
	for i, f := range batch {
		if queries[i] = x.n.serveQuery(f.r); x.n.usual(f.r) {
			queries[i] = x.n.usualQuery(f.r)
		}
		if prepared[i], f.err = x.conn.Prepare(life, x.n.prepared(queries[i].text), queries[i].text); f.err != nil {
			f.err = errSlow
		}
	}
	pg := x.conn.PgConn()
	x.w.reads(pg.Conn())
	pipeline := pg.StartPipeline(context.Background())
	for i, f := range batch {
		if f.err == nil {
			f.err = f.send()
		}
		if f.err == nil {
			pipeline.SendQueryStatement(prepared[i], queries[i].p.all, binaryFormat, binaryFormat)
			pipeline.SendPipelineSync()
			queries[i].sent = true
		}
	}
	failed := pipeline.Flush()
	for i, f := range batch {
		if q := &queries[i]; q.sent && failed != nil {
			q.err = failed
		} else if q.sent {
			q.err = receive(pipeline, q)
		}
		if queries[i].sent {
			f.a, f.err = x.answer(f, &queries[i], x.outcome(&queries[i]))
		}
	}
	pipeline.Close()
	x.broken = x.w.reads(nil) || x.broken
	for i, f := range batch {
		if queries[i].usual && errors.Is(f.err, sql.ErrNoRows) { // it did nothing
			if f.a, f.err = (node.Answer{}), errSlow; !x.broken && !x.conn.IsClosed() {
				q := x.n.serveQuery(f.r)
				f.a, f.err = x.answer(f, &q, x.exec(life, f, &q))
			}
		}
	}
}

// receive reads what one statement of a pipeline answered, up to its commit.
func receive(pipeline *pgconn.Pipeline, q *query) error {
	results, err := pipeline.GetResults()
	if rows, ok := results.(*pgconn.ResultReader); ok {
		q.scan(rows)
		_, err = rows.Close()
	}
	if err != nil && reply(err) == nil {
		return err
	}
	committed, failed := pipeline.GetResults()
	if reply(failed) != nil { // which does not end what was sent together
		committed, _ = pipeline.GetResults()
	}
	if _, ok := committed.(*pgconn.PipelineSync); !ok && failed == nil {
		failed = errors.New("the connection was lost before the commit was known")
	}
	return cmp.Or(err, failed)
}

// query is a statement of a request, and what it answered.
type query struct {
	text        string
	p           parameters
	usual       bool
	sent, found bool
	row         values
	s           served
	err         error
}

func (n *Node) usualQuery(r node.Request) (q query) {
	q.usual, q.text = true, n.sql.release
	name, stripe, ttl := r.Name, node.Stripe(r.Name), r.TTL.Milliseconds()
	switch r.Op {
	case node.Acquire:
		q.text = n.sql.take
		q.p.text(name).int4(stripe).text(string(r.Holder)).int8(ttl).int8(int64(r.Token)).text(n.ourTerms())
	case node.Extend:
		q.text = n.sql.extend
		q.p.text(name).int4(stripe).text(string(r.Holder)).int8(ttl).int8(int64(r.Token)).text(n.ourTerms()).
			int8(int64(r.OwnToken))
	default:
		q.p.text(name).text(string(r.Holder)).int4(stripe)
	}
	return q
}

func (n *Node) serveQuery(r node.Request) (q query) {
	q.text = n.sql.serve
	q.p.int4(int(r.Op)).text(r.Name).int4(node.Stripe(r.Name)).text(string(r.Holder)).int8(r.TTL.Milliseconds()).
		int8(int64(r.Token)).int8(int64(r.OwnToken)).text(r.Place.Waiter).int8(r.Place.Stamp).text(n.ourTerms()).
		bool(r.Shared).int8(int64(r.Next))
	return q
}

// scan reads the row, if there is one. It means nothing if the statement fails afterwards.
func (q *query) scan(rows *pgconn.ResultReader) {
	if !rows.NextRow() {
		return
	}
	q.found, q.row.all = true, rows.Values()
	row, s := &q.row, &q.s
	if q.usual {
		s.status, s.register, s.store = int(node.Granted), row.int8(), row.text()
		return
	}
	s.status, s.register, s.heldBy, s.remaining = row.int4(), row.int8(), []byte(row.text().String), row.int8()
	s.ahead, s.clock, s.store, s.quiet, s.given = row.int4(), row.int8(), row.text(), row.bool(), row.int8()
	s.inside = row.bool()
}

// answer returns what a query says.
func (x *exchange) answer(f *flight, q *query, err error) (node.Answer, error) {
	switch {
	case err != nil:
		return node.Answer{}, err
	case q.usual:
		return x.n.answer(f.r, node.Granted, q.s.register, q.s.store)
	case node.Status(q.s.status) == node.Rejoining:
		return node.Answer{}, errSlow // it did nothing
	}
	return x.n.served(f.r, &q.s)
}

// send returns why a request must not be sent. If it returns nil, the outcome is unknown from then.
func (f *flight) send() error {
	if err := f.givenUp(); err != nil {
		return err
	}
	if !f.call.Wanted() {
		return unsent(context.Canceled)
	}
	return nil
}

// exec sends a statement, which the connection prepares before, and reads one row.
func (x *exchange) exec(life context.Context, f *flight, q *query) error {
	statement, err := x.conn.Prepare(life, x.n.prepared(q.text), q.text)
	if err != nil {
		return errSlow
	}
	if err := f.send(); err != nil {
		return err
	}
	pg := x.conn.PgConn()
	x.w.reads(pg.Conn())
	rows := pg.ExecStatement(context.Background(), statement, q.p.all, binaryFormat, binaryFormat)
	q.scan(rows)
	_, q.err = rows.Close() // what comes after the row, too: the commit may have failed
	x.broken = x.w.reads(nil)
	return x.outcome(q)
}

// outcome returns the error of a statement that was sent: sql.ErrNoRows if it answered no row.
func (x *exchange) outcome(q *query) error {
	switch err := q.err; {
	case err == nil && !q.found:
		return sql.ErrNoRows
	case err == nil && q.row.wrong:
		return errors.New("the schema answered a row of another kind: it was changed by hand")
	case err == nil:
		return nil
	case hasCode(err, notSupported): // as in once
		x.broken = true
		return err
	case pgconn.SafeToRetry(err), again(err), undone(err) && (ofAnotherFormat(err) || hasCode(err, undefinedStatement) ||
		hasCode(err, duplicateStatement)):
		return errSlow
	default:
		return err
	}
}

var binaryFormat = []int16{pgtype.BinaryFormatCode}

// parameters are those of a statement, in PostgreSQL's binary format.
type parameters struct{ all [][]byte }

// text adds a text, or bytes.
func (p *parameters) text(s string) *parameters { return p.add(append(make([]byte, 0, len(s)), s...)) }

func (p *parameters) int4(n int) *parameters {
	return p.add(binary.BigEndian.AppendUint32(nil, uint32(n)))
}

func (p *parameters) int8(n int64) *parameters {
	return p.add(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (p *parameters) bool(b bool) *parameters {
	if b {
		return p.add([]byte{1})
	}
	return p.add([]byte{0})
}

func (p *parameters) add(value []byte) *parameters {
	if p.all == nil {
		p.all = make([][]byte, 0, 12)
	}
	p.all = append(p.all, value)
	return p
}

// values are those of a row, from the first to the last.
type values struct {
	all   [][]byte
	wrong bool // there was another number of them, or one of another length
}

func (v *values) next(length int) []byte {
	if len(v.all) == 0 {
		v.wrong = true
		return nil
	}
	first := v.all[0]
	v.all = v.all[1:]
	if length > 0 && len(first) != length {
		v.wrong = true
		return nil
	}
	return first
}

func (v *values) text() (s sql.NullString) {
	b := v.next(0)
	return sql.NullString{String: string(b), Valid: b != nil}
}

func (v *values) int4() int {
	if b := v.next(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (v *values) int8() int64 {
	if b := v.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (v *values) bool() bool {
	b := v.next(1)
	return b != nil && b[0] != 0
}
