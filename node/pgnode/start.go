package pgnode

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
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
// sends it as bytes on that connection. That takes a quarter of the time of a query of database/sql,
// which starts goroutines and makes contexts for each. What is not usual takes the slow path
// (conn.go): a driver that is not pgx's, a pooler, an admission, an error that says to try again.

// flight is a request that a worker carries out.
type flight struct {
	r     node.Request
	until time.Time // it is not sent after that
	call  node.Call
	asked *asked // call, of a Do
	by    atomic.Pointer[worker]
}

// errSlow is of a request that was certainly not carried out, and takes the slow path.
var errSlow = errors.New("not the usual request")

// Start implements node.Starter.
func (n *Node) Start(r node.Request, timeout time.Duration, call node.Call) {
	err := rule.CheckShared(r)
	if err == nil && (r.Op < node.Acquire || r.Op > node.Release) {
		err = engine.Invalidf("pgnode: %v cannot be started", r.Op)
	}
	f := &flight{r: r, until: time.Now().Add(timeout), call: call}
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
		f.call.Done(n.doSlow(ctx, f.r))
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
	f := &flight{r: r, until: until, call: c, asked: c}
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

// carry has a worker carry out a request.
func (n *Node) carry(w *worker, f *flight) {
	a, err := n.carryOut(w, f)
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

// carryOut has a worker carry out a request on a connection that the pool has.
func (n *Node) carryOut(w *worker, f *flight) (a node.Answer, err error) {
	if n.closing.Err() != nil {
		return a, unsent(engine.ErrClosed)
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	default:
		return a, errSlow
	}
	if n.db.Stats().Idle == 0 {
		return a, errSlow // which makes a connection, however long that takes
	}
	life := w.begin(f, f.until.Add(finishTimeout))
	defer w.over()
	f.by.Store(w)
	if err := f.givenUp(); err != nil {
		return a, err
	}
	conn, err := n.db.Conn(life)
	if err != nil {
		return a, errSlow
	}
	defer conn.Close()
	conn.Raw(func(of any) error {
		c, ok := of.(*stdlib.Conn)
		if !ok {
			err = errSlow
			return nil
		}
		x := exchange{n: n, w: w, f: f, conn: c.Conn()}
		if a, err = x.carryOut(life); x.broken || c.Conn().IsClosed() {
			return driver.ErrBadConn
		}
		return nil
	})
	return a, err
}

// exchange is a request on a connection.
type exchange struct {
	n      *Node
	w      *worker
	f      *flight
	conn   *pgx.Conn
	broken bool // the connection must not be used any more
}

func (x *exchange) carryOut(life context.Context) (a node.Answer, err error) {
	r := x.f.r
	name, stripe, ttl := r.Name, node.Stripe(r.Name), r.TTL.Milliseconds()
	if x.n.usual(r) {
		var register int64
		var store sql.NullString
		text, p := x.n.sql.release, parameters{}
		switch r.Op {
		case node.Acquire:
			text = x.n.sql.take
			p.text(name).int4(stripe).text(string(r.Holder)).int8(ttl).int8(int64(r.Token)).text(x.n.ourTerms())
		case node.Extend:
			text = x.n.sql.extend
			p.text(name).int4(stripe).text(string(r.Holder)).int8(ttl).int8(int64(r.Token)).text(x.n.ourTerms()).
				int8(int64(r.OwnToken))
		default:
			p.text(name).text(string(r.Holder))
		}
		err := x.exec(life, text, &p, func(row *values) {
			register, store = row.int8(), row.text()
		})
		if err == nil {
			return x.n.answer(r, node.Granted, register, store)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return a, err
		}
	}
	var s served
	var p parameters
	p.int4(int(r.Op)).text(name).int4(stripe).text(string(r.Holder)).int8(ttl).int8(int64(r.Token)).
		int8(int64(r.OwnToken)).text(r.Place.Waiter).int8(r.Place.Stamp).text(x.n.ourTerms()).bool(r.Shared).
		int8(int64(r.Next))
	err = x.exec(life, x.n.sql.serve, &p, func(row *values) {
		s.status, s.register, s.heldBy, s.remaining = row.int4(), row.int8(), []byte(row.text().String), row.int8()
		s.ahead, s.clock, s.store, s.quiet, s.given = row.int4(), row.int8(), row.text(), row.bool(), row.int8()
	})
	if err != nil {
		return a, err
	}
	if node.Status(s.status) == node.Rejoining {
		return a, errSlow // it did nothing
	}
	return x.n.served(r, &s)
}

// exec sends a statement, which the connection prepares before, and reads one row. What it reads
// means nothing if it fails.
func (x *exchange) exec(life context.Context, text string, p *parameters, read func(*values)) error {
	statement, err := x.conn.Prepare(life, x.n.prepared(text), text)
	if err != nil {
		return errSlow
	}
	if err := x.f.givenUp(); err != nil {
		return err
	}
	if !x.f.call.Wanted() { // from now on, the outcome is unknown
		return unsent(context.Canceled)
	}
	pg := x.conn.PgConn()
	x.w.reads(pg.Conn())
	rows := pg.ExecStatement(context.Background(), statement, p.all, binaryFormat, binaryFormat)
	found, row := false, values{}
	if rows.NextRow() {
		found, row.all = true, rows.Values()
		read(&row)
	}
	_, err = rows.Close() // what comes after the row, too: the commit may have failed
	x.broken = x.w.reads(nil)
	switch {
	case err == nil && !found:
		return sql.ErrNoRows
	case err == nil && row.wrong:
		return fmt.Errorf("the schema answered a row of another kind: it was changed by hand")
	case err == nil:
		return nil
	case hasCode(err, notSupported): // as in once
		x.broken = true
		return err
	case pgconn.SafeToRetry(err), again(err), undone(err) && (ofAnotherFormat(err) || hasCode(err, undefinedStatement) ||
		hasCode(err, duplicateStatement)):
		return errSlow
	}
	return err
}

// prepared returns what a statement is called where it is prepared.
func (n *database) prepared(text string) string {
	if name, ok := n.names.Load(text); ok {
		return name.(string)
	}
	sum := sha256.Sum256([]byte(text))
	name := "fenlock_" + hex.EncodeToString(sum[:16])
	n.names.Store(text, name)
	return name
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
