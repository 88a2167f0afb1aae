package pgnode

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// hosts keeps a client with several hosts to one primary of one cluster. pgx takes the first host
// that accepts writes. That may be a primary that came back after its standby was promoted, and
// clients would be spread over both. So with a new connection all hosts are asked. A primary is not
// used if another one has a newer timeline, which each promotion begins. Of two primaries that have
// one timeline, none is used. A host that is down, or cut off, says nothing: that is why the old
// primary has to be stopped (docs/postgres.md).
type hosts struct {
	config   *pgx.ConnConfig // of a connection to any host, without validation
	password func() (string, error)
	closing  *engine.Lifetime

	mu     sync.Mutex
	system string
	newest string            // timeline of a primary of the system
	seen   map[string]*place // what each host said when it was asked last, unless it said nothing
	looked chan struct{}     // closed when the latest look is over, nil if there was none
	began  time.Time         // the latest look
	under  int               // looks under way
}

const (
	lookPatience = 200 * time.Millisecond // for how long a connection waits for what the other hosts say
	lookEvery    = 10 * time.Second       // unless what the hosts said is against a connection
	mostLooks    = 4                      // under way, where a host says nothing
)

// place is what a server says of itself.
type place struct {
	at       time.Time // when it said so
	system   string    // identifier, "" if the user must not know
	started  string
	timeline string // eight digits, "" of a standby
}

var errOlderPrimary = errors.New("it is an older primary: another host was promoted since, so stop this one")

// keepTo has the connections of a configuration validated.
func keepTo(config *pgx.ConnConfig, password func() (string, error)) *hosts {
	c := &hosts{config: config.Copy(), password: password, seen: make(map[string]*place)}
	c.config.ValidateConnect = nil
	attributes := config.ValidateConnect
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := attributes(ctx, conn); err != nil {
			return err
		}
		return c.validate(ctx, conn)
	}
	return c
}

const placeKey = "fenlock place"

func (c *hosts) validate(ctx context.Context, conn *pgconn.PgConn) error {
	here, err := ask(ctx, conn)
	if err != nil || here == nil {
		return err
	}
	conn.CustomData()[placeKey] = here
	c.look(ctx, here.at.Add(-lookEvery))
	if err = c.accept(here); errors.Is(err, node.ErrMisconfigured) {
		c.look(ctx, here.at) // a host that was started anew meanwhile is no other primary
		err = c.accept(here)
	}
	return err
}

// accept takes a server for the primary, or returns why it is not used.
func (c *hosts) accept(here *place) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.judge(here)
	if errors.Is(err, node.ErrMisconfigured) {
		return err
	}
	if here.system != "" && here.system != c.system { // the first one, or an upgraded cluster
		c.system, c.newest = here.system, ""
		for _, p := range c.seen {
			c.learn(p)
		}
	}
	if err == nil {
		c.newest = max(c.newest, here.timeline)
	}
	return err
}

// learn remembers the timeline of a primary.
func (c *hosts) learn(p *place) {
	if p.system == c.system {
		c.newest = max(c.newest, p.timeline)
	}
}

// reset refuses a connection of the pool, if the hosts have said meanwhile why.
func (c *hosts) reset(_ context.Context, conn *pgx.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if here, ok := conn.PgConn().CustomData()[placeKey].(*place); ok && c.judge(here) != nil {
		return driver.ErrBadConn
	}
	return nil
}

// judge returns why a server is not used.
func (c *hosts) judge(here *place) error {
	newest := c.newest
	if here.system != "" && here.system != c.system { // an upgraded cluster begins with the first timeline
		newest = ""
	}
	for host, other := range c.seen {
		switch {
		case other.system != here.system && other.system != "" && here.system != "":
			return fmt.Errorf("%w: the hosts are not of one cluster: %s has another system identifier", node.ErrMisconfigured,
				host)
		case other.timeline != "" && other.timeline == here.timeline && other.started != here.started:
			return fmt.Errorf("%w: %s is a primary as well, of the same timeline: stop one of them", node.ErrMisconfigured,
				host)
		}
		newest = max(newest, other.timeline)
	}
	if here.timeline < newest {
		return errOlderPrimary
	}
	return nil
}

// look asks all hosts, unless that was begun after a moment, and waits a little for their answers.
func (c *hosts) look(ctx context.Context, moment time.Time) {
	c.mu.Lock()
	if !c.began.After(moment) && c.under < mostLooks {
		looked := make(chan struct{})
		if c.closing.Spawn(func() { defer close(looked); c.askAll() }) == nil {
			c.looked, c.began = looked, time.Now()
			c.under++
		}
	}
	looked := c.looked
	c.mu.Unlock()
	if looked == nil {
		return
	}
	select {
	case <-looked:
	case <-ctx.Done():
	case <-time.After(lookPatience):
	}
}

func (c *hosts) askAll() {
	var all sync.WaitGroup
	for _, config := range apart(c.config) {
		all.Go(func() {
			began := time.Now()
			p := c.askOne(config)
			c.hear(hostsOf(config)[0], p, began)
		})
	}
	all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under--
}

// hear takes what a host said when it was asked, nil if it said nothing. What it has said to a
// later look stays.
func (c *hosts) hear(host string, p *place, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.seen[host]
	switch {
	case before != nil && before.at.After(began):
	case p == nil:
		delete(c.seen, host)
	default:
		c.seen[host] = p
		c.learn(p)
	}
}

// askOne returns nil if the host cannot be asked.
func (c *hosts) askOne(config *pgx.ConnConfig) *place {
	ctx, cancel := context.WithTimeout(c.closing, connectTimeout)
	defer cancel()
	if c.password != nil {
		password, err := c.password()
		if err != nil {
			return nil
		}
		config.Password = password
	}
	conn, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return nil
	}
	defer conn.Close(ctx)
	p, err := ask(ctx, conn)
	if err != nil {
		return nil
	}
	return p
}

// ask returns what a server says, nil if it does not.
func ask(ctx context.Context, conn *pgconn.PgConn) (*place, error) {
	results, err := conn.Exec(ctx, `SELECT pg_catalog.pg_postmaster_start_time(), CASE WHEN pg_catalog.pg_is_in_recovery() THEN ''
			ELSE pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END;
		SELECT s.system_identifier FROM pg_catalog.pg_control_system() AS s`).ReadAll()
	if reply(err) == nil && err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 2 {
		return nil, nil // a server that does not know its timeline
	}
	p := &place{at: time.Now(), started: string(results[0].Rows[0][0]), timeline: string(results[0].Rows[0][1])}
	if len(results) > 1 && len(results[1].Rows) == 1 && len(results[1].Rows[0]) == 1 {
		p.system = string(results[1].Rows[0][0])
	}
	return p, nil
}

// apart returns a configuration for each host.
func apart(config *pgx.ConnConfig) (all []*pgx.ConnConfig) {
	names := hostsOf(config)
	all = make([]*pgx.ConnConfig, len(names))
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...)
	for _, way := range ways { // with TLS and without
		i := slices.Index(names, hostText(way.Host, way.Port))
		if all[i] == nil {
			all[i] = config.Copy()
			all[i].Host, all[i].Port, all[i].TLSConfig, all[i].Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		} else {
			all[i].Fallbacks = append(all[i].Fallbacks, way)
		}
	}
	return all
}
