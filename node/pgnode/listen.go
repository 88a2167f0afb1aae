package pgnode

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

const (
	// minAsk and maxAsk are between two questions of a client that cannot be notified. A
	// reservation ends after a second.
	minAsk = 20 * time.Millisecond
	maxAsk = 500 * time.Millisecond
	// relisten is after how long a client that asks tries again to be notified. There was no
	// connection, or notifications do not arrive, which seldom changes.
	relisten    = 30 * time.Second
	neverPushed = 10 * time.Minute
	// listenTimeout bounds what has to be sent for a client to be reachable.
	listenTimeout = 5 * time.Second
	// probeTimeout is how long a notification may take that the client sends itself.
	probeTimeout = time.Second
	// fewest is of how many connections a caller's pool must be for one to be set aside.
	fewest = 4
)

// Listen implements node.Queuer. It tries to be notified on a connection of its own. Where
// that does not work, the client asks again and again.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.errorf("listen", err)
	}
	own := &listener{node: n, asked: make(chan struct{}, 1)}
	n.mu.Lock()
	if n.listeners[client] != nil {
		n.mu.Unlock()
		return n.errorf("listen", engine.Invalidf("pgnode: this client listens already"))
	}
	n.listeners[client] = own
	n.mu.Unlock()
	return n.errorf("listen", engine.Listen(ctx, n.closing, client, notify, own.attend))
}

// listener is a client whose waiters can be notified.
type listener struct {
	*engine.Listener
	node  *Node
	asked chan struct{} // there is a waiter: ask soon
}

// attend keeps the client reachable until that fails in both ways, or the node is closed.
func (l *listener) attend(life context.Context, of *engine.Listener) (err error) {
	l.Listener = of
	for err == nil && life.Err() == nil {
		again := relisten
		if err = l.push(); errors.Is(err, errNoPush) {
			again = neverPushed
		}
		if err != nil && life.Err() == nil {
			err = l.pull(again)
		}
	}
	if life.Err() != nil {
		l.leave()
	}
	return err
}

// leave takes the client off the list, so that nothing is reserved for it. It is swept otherwise.
func (l *listener) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.node.closing), time.Second)
	defer cancel()
	_, _ = l.node.db.ExecContext(ctx, l.node.sql.leave, []byte(l.Client))
}

// errNoPush says that the client cannot be notified.
var errNoPush = errors.New("notifications do not arrive here")

// push makes the client reachable by a connection of its own. It returns when that is broken, or
// cannot be had, or is none: a pooler gives each transaction another one.
func (l *listener) push() error {
	n := l.node
	if n.unnamed.Load() {
		return errNoPush // behind a pooler
	}
	conn, done, err := l.connect()
	if err != nil {
		return err
	}
	defer done()
	probe := "probe-" + rand.Text()
	channel := "fenlock_" + l.Client
	ctx, cancel := context.WithTimeout(n.closing, listenTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, `LISTEN "`+channel+`"`); err != nil {
		return err
	}
	var none any
	// Sent by another connection, while this one is in no transaction.
	if err := n.query(ctx, n.sql.notify, []any{channel, probe}, &none); err != nil {
		return err
	}
	wait, end := context.WithTimeout(ctx, probeTimeout)
	defer end()
	for {
		told, err := conn.WaitForNotification(wait)
		if err != nil {
			return errNoPush
		}
		if told.Payload == probe {
			break
		}
	}
	if _, err := conn.Exec(ctx, n.sql.listen, []byte(l.Client), false); err != nil {
		return err
	}
	l.Begun()
	for {
		told, err := conn.WaitForNotification(n.closing)
		if err != nil {
			return nil // broken: it is made again at once
		}
		l.Tell(l.Client + ":" + told.Payload)
	}
}

// connect returns a connection for nothing else, which is new or of the caller's pool.
func (l *listener) connect() (conn *pgx.Conn, done func(), err error) {
	n := l.node
	ctx, cancel := context.WithTimeout(n.closing, n.connecting)
	defer cancel()
	if n.own != nil {
		config := n.own.Copy()
		if n.password != nil {
			if config.Password, err = n.password(); err != nil {
				return nil, nil, err
			}
		}
		if conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			return nil, nil, err
		}
		return conn, func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(n.closing), time.Second)
			defer cancel()
			conn.Close(ctx)
		}, nil
	}
	if most := n.db.Stats().MaxOpenConnections; most > 0 && most < fewest {
		return nil, nil, errNoPush
	}
	pooled, err := n.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = pooled.Raw(func(driver any) error {
		if c, ok := driver.(*stdlib.Conn); ok {
			conn = c.Conn()
			return nil
		}
		return errNoPush
	})
	if err != nil {
		pooled.Close()
		return nil, nil, err
	}
	return conn, func() {
		// No other waiter is to be notified for it.
		_ = pooled.Raw(func(any) error { return errors.Join(conn.Close(context.Background()), errNoPush) })
		pooled.Close()
	}, nil
}

// pull asks, at growing intervals, which of the client's waiters were notified. It returns
// nil when it is time to try to be notified again.
func (l *listener) pull(long time.Duration) error {
	n := l.node
	until := time.Now().Add(long)
	var none any
	if err := n.query(n.closing, n.sql.listen, []any{[]byte(l.Client), true}, &none); err != nil {
		return err
	}
	l.Begun()
	for wait := minAsk; time.Now().Before(until); {
		select {
		case <-n.closing.Done():
			return nil
		case <-l.asked:
			wait = minAsk
		case <-time.After(wait):
		}
		var told []string
		ctx, cancel := context.WithTimeout(n.closing, listenTimeout)
		err := n.each(ctx, n.sql.poll, []any{[]byte(l.Client)}, func(scan func(...any) error) error {
			var waiter []byte
			err := scan(&waiter)
			told = append(told, string(waiter))
			return err
		})
		cancel()
		if err != nil {
			return err
		}
		for _, waiter := range told {
			l.Tell(waiter)
		}
		if wait = min(wait*3/2, maxAsk); len(told) > 0 {
			wait = minAsk
		}
	}
	return nil
}

// hurry has a client that asks do so soon: one of its waiters was refused.
func (n *Node) hurry(waiter string) {
	n.mu.Lock()
	l := n.listeners[engine.ClientOf(waiter)]
	n.mu.Unlock()
	if l == nil {
		return
	}
	select {
	case l.asked <- struct{}{}:
	default:
	}
}
