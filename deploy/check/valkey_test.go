package check

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// Five servers as configured, with the users of credentials.sh. Everything that a lock does works,
// and a majority that crashes and comes back has forgotten nothing.
func TestFiveServers(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		c := newCluster(t, kind, 5)
		holder, waiter := c.client(t, newServers), c.client(t, nil)
		held := takes(t, holder, "orders/42")
		eventually(t, func() error {
			for _, s := range c.servers {
				if !s.votes() {
					return errors.New(s.addr() + " does not vote")
				}
			}
			return nil
		})

		for _, s := range c.servers[:3] {
			s.Kill()
		}
		for _, s := range c.servers[:3] {
			s.start()
		}
		// A server that was out for MaxTTL, 30 s, would be the end of the lock, of 10 s.
		eventually(t, func() error { return held.Extend(t.Context()) })
		if _, err := waiter.TryAcquire(t.Context(), "orders/42"); !errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("somebody else tries: %v; want ErrHeld", err)
		}
		next := make(chan *fenlock.Lock)
		go func() {
			lock, _ := waiter.Acquire(t.Context(), "orders/42")
			next <- lock
		}()
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if lock := <-next; lock == nil || lock.Token() <= held.Token() {
			t.Errorf("the waiter has %v; want a lock with a larger token than %d", lock, held.Token())
		}
	})
}

// What each user may do, beside locking.
func TestUsers(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		c := newCluster(t, kind, 1)
		s := c.servers[0]
		password, _, _ := strings.Cut(strings.TrimPrefix(c.nodes, "valkey://lock-user:"), "@")
		for _, command := range []string{"FLUSHALL", "KEYS *", "CONFIG SET appendonly no", "GET other", "SHUTDOWN",
			"ACL LIST", "PUBLISH other 1"} {
			if said := s.as("lock-user", password, strings.Fields(command)...); !strings.HasPrefix(said, "NOPERM") {
				t.Errorf("lock-user: %s: %s; want NOPERM", command, said)
			}
		}
		if said := s.operate("CONFIG", "GET", "appendfsync"); said != "appendfsync\nalways" {
			t.Errorf("operator: %q", said)
		}
		for _, password := range []string{"", "wrong"} {
			if said := s.as("default", password, "PING"); strings.HasSuffix(said, "PONG") {
				t.Errorf("the default user with the password %q is served: %s", password, said)
			}
		}
		if err := s.refusesStrangers(); err != nil {
			t.Error(err)
		}
		if s.operate("ACL", "SETUSER", "default", "on", "nopass", "+@all"); s.refusesStrangers() == nil {
			t.Error("the health check is content with a server that serves everybody")
		}
	})
}

// A new password takes the place of the old one while a lock is held, as docs/deploy.md
// has it.
func TestChangeOfPassword(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		c := newCluster(t, kind, 3)
		held := takes(t, c.client(t, newServers), "orders/42")
		_, old, _ := strings.Cut(strings.Split(c.nodes, "@")[0], "lock-user:")
		hash := func(password string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(password))) }
		for _, s := range c.servers {
			s.operate("ACL", "SETUSER", "lock-user", "#"+hash("new-one"))
		}
		changed := cluster{c.servers, strings.ReplaceAll(c.nodes, old, "new-one")}
		takes(t, changed.client(t, nil), "with the new password")
		for _, s := range c.servers {
			s.operate("ACL", "SETUSER", "lock-user", "!"+hash(old))
		}
		if err := held.Extend(t.Context()); err != nil {
			t.Errorf("who is connected goes on: %v", err)
		}
		if _, err := c.client(t, nil).TryAcquire(t.Context(), "b"); !errors.Is(err, fenlock.ErrMisconfigured) ||
			strings.Contains(err.Error(), old) {
			t.Errorf("with the old password: %v; want ErrMisconfigured, without the password", err)
		}
		takes(t, changed.client(t, nil), "with the new password alone")
	})
}

// The users' file is what credentials.sh makes of the example, and the example has what
// docs/valkey.md says.
func TestPermissionsAreTheDocuments(t *testing.T) {
	const document = "../docs/valkey.md"
	line := regexp.MustCompile(
		`ACL SETUSER lock-user on clearselectors resetkeys resetchannels -@all (.*)`).FindStringSubmatch(read(t, document))
	if line == nil {
		t.Fatalf("%s has no line of permissions", document)
	}
	if !strings.Contains(read(t, "valkey/users.acl.example"), "user lock-user on #LOCK-PASSWORD-SHA256 "+line[1]+"\n") {
		t.Errorf("users.acl.example has other permissions than %s: %s", document, line[1])
	}
}

func TestCredentials(t *testing.T) {
	folder := t.TempDir()
	if said, err := credentials(t, folder); err == nil || !strings.Contains(said, "usage") {
		t.Errorf("without servers: %v: %s", err, said)
	}
	if said, err := credentials(t, folder, "a:1", "b:2?name=2"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	texts := map[string]string{}
	for name, mode := range map[string]os.FileMode{"nodes.env": 0o600, "operator.password": 0o600, "users.acl": 0o644} {
		info, err := os.Stat(filepath.Join(folder, name))
		must(t, err)
		if info.Mode().Perm() != mode {
			t.Errorf("%s: %v; want %v", name, info.Mode().Perm(), mode)
		}
		text, err := os.ReadFile(filepath.Join(folder, name))
		must(t, err)
		texts[name] = string(text)
	}
	nodes := regexp.MustCompile(
		`^FENLOCK_NODES=valkey://lock-user:([\w-]{32})@a:1,valkey://lock-user:([\w-]{32})@b:2\?name=2\n$`).
		FindStringSubmatch(texts["nodes.env"])
	if nodes == nil || nodes[1] != nodes[2] {
		t.Fatalf("nodes.env is %q", texts["nodes.env"])
	}
	if operator := strings.TrimSpace(texts["operator.password"]); operator == nodes[1] || len(operator) != 32 {
		t.Errorf("the operator's password is %q, the clients' %q", operator, nodes[1])
	}
	if users := texts["users.acl"]; strings.Contains(users, nodes[1]) || strings.Contains(users, "PASSWORD") {
		t.Errorf("users.acl is %q", users)
	}
	if said, err := credentials(t, folder, "a:1"); err == nil || !strings.Contains(said, "exists") {
		t.Errorf("a second run: %v: %s", err, said)
	}
	if again, err := os.ReadFile(filepath.Join(folder, "nodes.env")); err != nil || string(again) != texts["nodes.env"] {
		t.Errorf("a second run has changed nodes.env: %q, %v", again, err)
	}
}

// A server whose users are missing, or are the example's, must not serve.
func TestServerWithoutUsers(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		for _, users := range []string{"/nonexistent/users.acl", absolute(t, "valkey/users.acl.example")} {
			s := &server{t: t, kind: kind, port: freePort(t), folder: t.TempDir(), users: users}
			err := s.try(s.arguments()...)
			said := s.Log()
			if err == nil || !strings.Contains(said, "ACL") ||
				!strings.Contains(said, "hash must be exactly 64") && !strings.Contains(said, "No such file") {
				t.Errorf("%s-server with %s: %v; want it to end for its users; its log:\n%s", kind, users, err, said)
			}
		}
	})
}

// tls.conf beside fenlock.conf: clients with the authority get locks, and there is no way
// past TLS.
func TestServerWithTLS(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		other := testserver.StartTLS(t, kind) // has certificates
		file := func(setting string) string {
			_, value, _ := strings.Cut(strings.Trim(other.Do("CONFIG", "GET", setting), "[]"), " ")
			return value
		}
		c := newCluster(t, kind, 1)
		s := c.servers[0]
		s.Kill()
		plain := *s
		s.ca = other.CAFile
		s.start("--include", absolute(t, "valkey/tls.conf"), "--port", "0", "--tls-port", s.port,
			"--tls-cert-file", file("tls-cert-file"), "--tls-key-file", file("tls-key-file"), "--tls-ca-cert-file", s.ca)
		if plain.refusesStrangers() == nil {
			t.Error("it answers without TLS")
		}
		c.nodes = strings.Replace(c.nodes, "valkey://", "valkeys://", 1) + "?ca=" + s.ca
		takes(t, c.client(t, newServers), "orders/42")
	})
}
