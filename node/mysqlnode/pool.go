package mysqlnode

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// mostConnections bounds the connections of a Node that Open made, beside those that its
// listeners keep. An operation keeps one for two statements.
const mostConnections = 16

// pool is what a node has of its server: connections, and what was found out about it.
type pool struct {
	db  *sql.DB
	own bool // Close closes db

	sessions sessions
	facts    atomic.Pointer[meta] // as read last
	ahead    atomic.Int64         // of fenlock_meta, as read or written last
	joined   func() bool          // whether the client is in a group

	patience context.Context // until Finish
	finish   context.CancelFunc
	mu       sync.Mutex         // for what follows
	steady   map[string]*steady // by client that listens here

	beforeWrite func()        // for tests: nil
	silence     time.Duration // for tests: 0
	rewrite     time.Duration // for tests: 0
	rests       time.Duration // for tests: 0
}

// conn returns a connection and what is known of its server.
func (n *pool) conn(ctx context.Context) (*sql.Conn, *session, error) { return n.connect(ctx, false) }

// freshConn is conn, after a new look at the server.
func (n *pool) freshConn(ctx context.Context) (*sql.Conn, *session, error) {
	return n.connect(ctx, true)
}

func (n *pool) connect(ctx context.Context, fresh bool) (*sql.Conn, *session, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.patience, cancel)()
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	if fresh {
		n.sessions.forget(conn)
	}
	s, err := n.session(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, s, nil
}

// session returns what is known of the server that a connection leads to, after looking at it if
// that was not done yet.
func (n *pool) session(ctx context.Context, conn *sql.Conn) (*session, error) {
	key, is := n.sessions.of(conn)
	if is {
		if s := n.sessions.get(key); s != nil {
			return s, nil
		}
	}
	s, err := look(ctx, conn, n.own)
	if err == nil {
		err = n.sessions.in(s.database)
	}
	if err == nil && is {
		n.sessions.put(key, s)
	}
	return s, err
}

// kept counts the connections of each pool that listeners keep: Nodes may share one.
var kept struct {
	mu sync.Mutex
	of map[*sql.DB]int
}

// keep makes room for one listener more, until leave is called. One connection is left for what is
// not a listener, or operations would have none.
func (n *pool) keep() (leave func(), err error) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.of == nil {
		kept.of = make(map[*sql.DB]int)
	}
	if most := n.db.Stats().MaxOpenConnections; !n.own && most > 0 && kept.of[n.db]+1 >= most {
		return nil, fmt.Errorf(
			"all but one of the pool's %d connections are kept by others who wait for locks: raise SetMaxOpenConns", most)
	}
	n.kept(1)
	return func() {
		kept.mu.Lock()
		defer kept.mu.Unlock()
		n.kept(-1)
	}, nil
}

// kept counts. A pool of the Node's own grows with it. Called with kept.mu held.
func (n *pool) kept(more int) {
	if kept.of[n.db] += more; n.own {
		n.db.SetMaxOpenConns(mostConnections + kept.of[n.db])
	}
	if kept.of[n.db] == 0 {
		delete(kept.of, n.db)
	}
}

// saidInTime notes that a client says that it is there. It returns for how long it has said so in
// time, over all of its connections.
func (n *pool) saidInTime(client string, now, every time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.steady[client] == nil {
		n.steady[client] = new(steady)
	}
	return n.steady[client].said(now, every)
}
