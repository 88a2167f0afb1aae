//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// Postgres is PostgreSQL. Whatever it is told, its leases are gone after a crash, and its
// registers are not.
var Postgres = &Engine{
	Name: "postgres", TTL: TTL, WallClock: true, preloads: true,
	Crash: func(Persistence) Loss { return Leases },
	start: func(t testing.TB, p Persistence, environment []string) Server {
		var settings []string
		if p != Always { // fenlock waits for the disk all the same, where it has to
			settings = append(settings, "synchronous_commit=off", "wal_writer_delay=10s")
		}
		return postgres{testserver.StartPostgresWith(t, environment, settings...)}
	},
	url: func(_, through string, node int) string {
		return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&name=%d", through, node)
	},
	prepare: migrate,
	database: func(server string) (driver, source string) {
		return "pgx", "postgres://postgres@" + server + "/postgres?sslmode=disable"
	},
	endSessions: `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
	drop:        []string{`DROP SCHEMA IF EXISTS fenlock CASCADE`},
	readOnly: func(on bool) []string {
		return []string{fmt.Sprintf("ALTER SYSTEM SET default_transaction_read_only = %v", on), "SELECT pg_reload_conf()"}
	},
	normal: func(m *Member) error {
		return again(Patience, func(ctx context.Context) error {
			return m.Exec(ctx, `CREATE TEMPORARY TABLE normal ()`) // not in a transaction that only reads
		})
	},
}

// postgres is a server of PostgreSQL.
type postgres struct{ *testserver.Postgres }

func (p postgres) Restart() { p.Start() }

// crash kills a process. heal waits until the server has noticed and accepts connections
// again, or has ended.
func (p postgres) crash(rng *rand.Rand) (heal func() error, err error) {
	const ready = "database system is ready to accept"
	all, pid := p.Backends(), p.Pid()
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no client is connected", ErrNotNow)
	}
	before := strings.Count(p.Log(), ready)
	if err := syscall.Kill(all[rng.IntN(len(all))], syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotNow, err) // it has just ended
	}
	return func() error {
		for end := time.Now().Add(HealLimit); time.Now().Before(end); time.Sleep(pollInterval) {
			if p.Pid() != pid || strings.Count(p.Log(), ready) > before {
				return nil
			}
		}
		return errors.New("the server has not begun anew after one of its processes was killed")
	}, nil
}

// CrashBackend kills one of the processes that serve a connection, as the kernel does
// when there is no memory left. heal waits until the server has begun anew, which it
// does not while another fault has it stopped.
func (m *Member) CrashBackend(rng *rand.Rand) (heal func() error, err error) {
	p, ok := m.Server().(postgres)
	if !ok || p.Pid() == 0 {
		return nil, fmt.Errorf("%w: the server is down", ErrNotNow)
	}
	return p.crash(rng)
}
