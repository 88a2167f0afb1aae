//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/tests/faults/steps"
)

// Valkey is Valkey, or Redis where that is installed alone.
var Valkey = valkeyOf(func(t testing.TB) testserver.Kind { return testserver.Kinds(t)[0] })

// OfKind is the group of servers of this kind.
func OfKind(kind testserver.Kind) Group {
	return Group{string(kind), []*Engine{valkeyOf(func(testing.TB) testserver.Kind { return kind })}}
}

func valkeyOf(kind func(t testing.TB) testserver.Kind) *Engine {
	return &Engine{
		Name: "valkey", TTL: TTL, WallClock: true, preloads: true,
		Crash: func(Persistence) Loss { return Registers },
		start: func(t testing.TB, p Persistence, environment []string) Server {
			k := kind(t)
			return valkey{testserver.StartWith(t, k, environment, configuration(p)...), k}
		},
		prepare: func(m *Member, p Persistence) error { return m.MarkAdmitted(p == Always) },
		// The schemes of both kinds are the same to a client.
		url: func(_, through string, node int) string { return fmt.Sprintf("valkey://%s?name=%d", through, node) },
		admitted: func(m *Member) bool {
			return testserver.IsAdmitted(m.asker(Brief), valkeynode.DefaultPrefix)
		},
		version: func(m *Member) (string, error) {
			info, err := m.Ask(Patience, "INFO", "server")
			kind := string(m.Server().(valkey).kind)
			return strings.ToUpper(kind[:1]) + kind[1:] + " " + testserver.Field(info, kind+"_version"), err
		},
		leftovers: valkeyLeftovers,
		settle:    func(m *Member, s Server) error { return m.settle(s.(valkey)) },
		normal:    valkeyNormal,
	}
}

// valkey is a server of Valkey or Redis.
type valkey struct {
	*testserver.Server
	kind testserver.Kind
}

func (v valkey) Restart() { v.Server.Restart() }

// The keys of fenlock that are no leases.
const (
	RegistersKey = "fenlock-registers:" + valkeynode.DefaultPrefix
	QueuePrefix  = "fenlock-line:" + valkeynode.DefaultPrefix // of waiter queues
)

// The harness is a user of its own, whatever becomes of the clients'.
const (
	adminUser     = "harness"
	adminPassword = "harness"
)

// configuration returns what servers need so that all faults are possible.
func configuration(p Persistence) []string {
	config := []string{
		// The harness's own way in, whatever becomes of the clients' user.
		fmt.Sprintf("user %s on >%s ~* &* +@all", adminUser, adminPassword),
		// CONFIG SET dbfilename, for misconf.
		"enable-protected-configs yes",
		// A replica is copied at once.
		"repl-diskless-sync-delay 0",
		// The allocator's thread sleeps until a time of the wall clock, and would spin if that were
		// set back. That would be a fault of the harness, not of the server.
		"jemalloc-bg-thread no",
	}
	switch p {
	case Always:
		config = append(config, "appendonly yes", "appendfsync always", "no-appendfsync-on-rewrite no",
			"aof-load-truncated no")
	case Everysec:
		config = append(config, "appendonly yes", "appendfsync everysec")
	}
	return config
}

// Ask sends a command as the harness, past the proxy. The reply is as text, an
// error of the server too; the error says that there was none.
func (m *Member) Ask(timeout time.Duration, args ...string) (string, error) {
	return m.Server().(valkey).Ask(adminUser, adminPassword, timeout, args...)
}

// Recorded is how package steps hears the servers, which are Valkey's.
func (c *Cluster) Recorded() (all []steps.Server) {
	for _, m := range c.Members {
		all = append(all, steps.Server{Addr: func() string { return m.Server().Addr() }, User: adminUser,
			Password: adminPassword, Ask: m.Ask,
			Cut: func() func() { return m.Proxy.Impose(proxy.Rule{Cut: true}) }})
	}
	return all
}

// asker is Ask with this timeout.
func (m *Member) asker(timeout time.Duration) func(args ...string) (string, error) {
	return func(args ...string) (string, error) { return m.Ask(timeout, args...) }
}

// expectOK is for commands that are answered with OK.
func expectOK(s valkey, timeout time.Duration, args ...string) error {
	reply, err := s.Ask(adminUser, adminPassword, timeout, args...)
	if err == nil && reply != "OK" {
		err = errors.New(reply)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.Addr(), strings.Join(args[:min(len(args), 3)], " "), err)
	}
	return nil
}

// Configure changes the running server by a command. heal sends undo, unless it is
// empty, until that is answered with OK, which another fault may delay. A server that
// was restarted or replaced in between has its normal configuration already.
func (m *Member) Configure(change, undo []string) (heal func() error, err error) {
	s := m.Server().(valkey)
	pid := s.Pid()
	if pid == 0 {
		return nil, fmt.Errorf("%w: the server is down", ErrNotNow)
	}
	restore := func() error {
		return m.retry(s, pid, func() error {
			if len(undo) > 0 {
				if err := expectOK(s, Brief, undo...); err != nil {
					return err
				}
			}
			return m.settle(s)
		})
	}
	if err := expectOK(s, Patience, change...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotNow, errors.Join(err, restore()))
	}
	return restore, nil
}

// ConfigureUntil is Configure with a wait until holds reports that the server is as
// the change wants it.
func (m *Member) ConfigureUntil(change, undo []string, holds func() bool) (heal func() error, err error) {
	heal, err = m.Configure(change, undo)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(pollInterval) {
		if holds() {
			return heal, nil
		}
	}
	if err := heal(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: not within %v", ErrNotNow, Patience)
}

// Promote attaches a replica, kills the server once it is copied, and puts the
// replica in its place.
func (m *Member) Promote() error {
	m.life.Lock()
	defer m.life.Unlock()
	old := m.Server()
	if old.Pid() == 0 {
		return fmt.Errorf("%w: the server is down", ErrNotNow)
	}
	return testserver.Try(func() error {
		replica := m.start().(valkey)
		host, port, _ := strings.Cut(old.Addr(), ":")
		err := expectOK(replica, Patience, "REPLICAOF", host, port)
		if err == nil {
			err = awaitCopy(replica)
		}
		if err != nil {
			replica.Kill()
			return fmt.Errorf("%w: no replica: %w", ErrNotNow, err)
		}
		old.Kill()
		if err := expectOK(replica, Patience, "REPLICAOF", "NO", "ONE"); err != nil {
			return err
		}
		m.mu.Lock()
		m.server = replica
		m.mu.Unlock()
		m.Proxy.Retarget(replica.Addr())
		return m.Settle()
	})
}

// awaitCopy waits until a replica has its primary's data.
func awaitCopy(replica valkey) error {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(pollInterval) {
		info, err := replica.Ask(adminUser, adminPassword, Brief, "INFO", "replication")
		if err == nil && testserver.Field(info, "master_link_status") == "up" {
			return nil
		}
	}
	return fmt.Errorf("the link is not up within %v", Patience)
}

func (m *Member) settle(s valkey) error {
	if m.Clock.Steps() == 0 || m.Clock.Off() != 0 {
		return nil
	}
	err := expectOK(s, Brief, "EVAL", `
		local time = redis.call('TIME')
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local longest = tonumber(ARGV[1])
			if string.sub(key, 1, #ARGV[2]) == ARGV[2] then
				longest = 15000
			end
			if redis.call('PTTL', key) > longest then
				local value = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) or ''
				local several = string.sub(value, 1, 7) == 'shared:'
				if several then
					-- Each of those that share the name has an end of its own.
					local last = time[1] * 1000 + math.floor(time[2] / 1000) + longest
					value = string.gsub(value, '\n(%d+)', function(ends)
						return '\n' .. string.format('%.0f', math.min(tonumber(ends), last))
					end)
				end
				redis.call('PEXPIRE', key, longest) -- first: a full server writes after it
				if several then
					redis.call('SET', key, value, 'KEEPTTL')
				end
			end
		end
		return redis.status_reply('OK')`, "0", fmt.Sprint(TTL.Milliseconds()), QueuePrefix)
	for _, code := range []string{"READONLY", "MISCONF"} {
		if err != nil && strings.Contains(err.Error(), code) {
			return nil // another fault is at work, whose heal will do it
		}
	}
	return err
}

// MarkAdmitted writes what an admission leaves, so that no client needs to wait for the quarantine
// of the first start.
func (m *Member) MarkAdmitted(durable bool) error {
	return testserver.MarkAdmitted(m.asker(Patience), valkeynode.DefaultPrefix, TTL, durable)
}

// valkeyLeftovers counts all keys but the registers and the waiter queues, which end by
// themselves.
func valkeyLeftovers(m *Member) (all []Leftover, err error) {
	// No key has a space in it.
	reply, err := m.Ask(Patience, "EVAL", `
		local all = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local holder = redis.call('TYPE', key).ok
			if holder == 'string' then
				holder = string.gsub(redis.call('GET', key), '\n', ', ')
			end
			all[#all+1] = key .. ' ' .. tostring(redis.call('PTTL', key)) .. ' ' .. holder
		end
		return table.concat(all, '\n')`, "0")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(reply) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) != 3 {
			return nil, fmt.Errorf("what is %q?", reply)
		}
		if key := words[0]; key != RegistersKey && !strings.HasPrefix(key, QueuePrefix) {
			text := fmt.Sprintf("holder %s, %s ms left", words[2], words[1])
			all = append(all, Leftover{Name: strings.TrimPrefix(key, valkeynode.DefaultPrefix), Text: text})
		}
	}
	return all, nil
}

// valkeyNormal returns an error unless the server has the configuration that it began with.
func valkeyNormal(m *Member) error {
	var errs []error
	for _, c := range []struct{ command, want string }{
		{"CONFIG GET maxmemory", "[maxmemory 0]"},
		{"CONFIG GET maxmemory-policy", "[maxmemory-policy noeviction]"},
		{"CONFIG GET save", "[save ]"},
		{"CONFIG GET dbfilename", "[dbfilename dump.rdb]"},
		{"SET normal 1 PX 60000", "OK"},
		{"DEL normal", "1"},
	} {
		if got, err := m.Ask(Patience, strings.Fields(c.command)...); got != c.want || err != nil {
			errs = append(errs, fmt.Errorf("%s: %q, want %q, %v", c.command, got, c.want, err))
		}
	}
	users, err := m.Ask(Patience, "ACL", "LIST")
	if !strings.Contains(strings.Replace(users, "sanitize-payload ", "", 1), "user default on nopass ~* &* +@all ") {
		errs = append(errs, fmt.Errorf("users: %s, %v", users, err))
	}
	info, err := m.Ask(Patience, "INFO", "replication")
	if role := testserver.Field(info, "role"); role != "master" {
		errs = append(errs, fmt.Errorf("role %q, %v", role, err))
	}
	return errors.Join(errs...)
}
