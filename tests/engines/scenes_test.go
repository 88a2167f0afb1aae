package engines

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// engine is a kind of group, and how to start one.
type engine struct {
	name  string
	start func(t *testing.T, fenlock string) scene
}

// scene is a group that runs, and what can happen to its servers.
type scene struct {
	urls []string
	ttl  time.Duration
	// disturb does something to the servers. Where a quorum is left meanwhile, it waits for
	// progress.
	disturb []func(progress func())
}

var all = []engine{
	{"SQLite", sqlite},
	{"Valkey", valkey},
	{"PostgreSQL", postgres},
	{"MariaDB", mariadb},
	{"etcd", etcd},
	{"ZooKeeper", zookeeper},
	{"Valkey and PostgreSQL", mixed},
}

func sqlite(t *testing.T, _ string) scene {
	return scene{urls: []string{"sqlite://" + filepath.Join(t.TempDir(), "locks.db")}, ttl: 2 * time.Second}
}

// pause stops a server for a while.
func pause(s interface {
	Pause()
	Resume()
}, d time.Duration) func(progress func()) {
	return func(func()) {
		s.Pause()
		time.Sleep(d)
		s.Resume()
	}
}

func valkey(t *testing.T, _ string) scene {
	servers := valkeys(t, 3)
	s := scene{ttl: 2 * time.Second}
	for _, one := range servers {
		s.urls = append(s.urls, one.URL())
		s.disturb = append(s.disturb, func(progress func()) { one.Kill(); progress(); one.Restart(); time.Sleep(2 * s.ttl) })
	}
	s.disturb = append(s.disturb, func(progress func()) { servers[0].Pause(); progress(); servers[0].Resume() })
	return s
}

func valkeys(t *testing.T, n int) []*testserver.Server {
	servers := testserver.Group(t, testserver.Kinds(t)[0], n)
	for _, s := range servers {
		s.MarkAdmitted(valkeynode.DefaultPrefix, 2*time.Second)
	}
	return servers
}

func postgres(t *testing.T, fenlock string) scene {
	server, ttl := testserver.StartPostgres(t), 2*time.Second
	migrate(t, fenlock, server.DSN())
	return scene{urls: []string{server.DSN()}, ttl: ttl, disturb: []func(func()){
		func(func()) { server.Kill(); server.Start() },
		pause(server, ttl/2),
		func(func()) { server.Stop(); server.Start() },
		pause(server, 2*ttl),
	}}
}

func mariadb(t *testing.T, fenlock string) scene {
	server, ttl := testserver.StartMariaDB(t), 2*time.Second
	migrate(t, fenlock, server.URL())
	return scene{urls: []string{server.URL()}, ttl: ttl, disturb: []func(func()){
		func(func()) { server.Kill(); server.Restart() },
		pause(server, ttl/2),
		pause(server, 2*ttl),
	}}
}

// etcd counts TTLs in whole seconds, and has none below two.
func etcd(t *testing.T, _ string) scene {
	cluster, ttl := testserver.StartEtcd(t, 3), 3*time.Second
	s := scene{urls: []string{"etcd://" + cluster.Addrs()}, ttl: ttl}
	for _, one := range cluster.Members {
		s.disturb = append(s.disturb, func(progress func()) { one.Kill(); progress(); cluster.Start(one) },
			func(progress func()) { one.Pause(); progress(); one.Resume() })
	}
	return s
}

func zookeeper(t *testing.T, _ string) scene {
	servers, ttl := testserver.StartZooKeepers(t, 3, nil), 3*time.Second
	s := scene{urls: []string{"zk://" + servers.Addrs()}, ttl: ttl}
	for _, one := range servers {
		s.disturb = append(s.disturb, func(progress func()) {
			one.Kill()
			progress()
			if err := one.Begin(); err != nil {
				t.Error(err)
			}
		})
	}
	s.disturb = append(s.disturb, func(progress func()) {
		leader := servers.Leader(t)
		leader.Pause()
		progress()
		leader.Resume()
	})
	return s
}

// migrate makes the tables of a database.
func migrate(t *testing.T, fenlock, url string) {
	t.Helper()
	if output, err := exec.Command(fenlock, "migrate", "-q", "--node", url).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

// mixed has three Valkey servers and two PostgreSQL servers, of which any two may be down.
func mixed(t *testing.T, fenlock string) scene {
	servers, ttl := valkeys(t, 3), 2*time.Second
	one, two := testserver.StartPostgres(t), testserver.StartPostgres(t)
	s := scene{ttl: ttl}
	for _, p := range []*testserver.Postgres{one, two} {
		migrate(t, fenlock, p.DSN())
		s.urls = append(s.urls, p.DSN())
	}
	for _, v := range servers {
		s.urls = append(s.urls, v.URL())
	}
	const back = 3 // TTLs until a server that lost its memory votes again, at most
	s.disturb = []func(func()){
		func(progress func()) {
			one.Kill()
			two.Kill()
			progress()
			one.Start()
			two.Start()
			time.Sleep(back * ttl)
		},
		func(progress func()) {
			servers[0].Kill()
			servers[1].Kill()
			progress()
			servers[0].Restart()
			servers[1].Restart()
			time.Sleep(back * ttl)
		},
		func(progress func()) {
			one.Kill()
			servers[2].Kill()
			progress()
			one.Start()
			servers[2].Restart()
			time.Sleep(back * ttl)
		},
	}
	return s
}
