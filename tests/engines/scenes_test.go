package engines

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// engine is a kind of group, and how to start one.
type engine struct {
	name  string
	start func(t *testing.T, fenlock string) scene
	// campaign: only TestCampaignCounter runs it. On a machine that was busy with other tests,
	// clients of PostgreSQL stood still twice, for as long as the test waits. The reason is not
	// known; counter.explain prints what is.
	campaign bool
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
	{name: "file", start: file},
	{name: "Valkey", start: valkey},
	{name: "PostgreSQL", start: postgres, campaign: true},
	{name: "MariaDB", start: mariadb},
	{name: "etcd", start: etcd},
	{name: "ZooKeeper", start: zookeeper},
	{name: "NATS", start: nats},
	{name: "S3", start: bucket, campaign: true},
	{name: "Valkey and PostgreSQL", start: mixed, campaign: true},
}

func file(t *testing.T, _ string) scene {
	return scene{urls: []string{"file://" + filepath.Join(t.TempDir(), "locks")}, ttl: 4 * time.Second}
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

func valkey(t *testing.T, fenlock string) scene {
	servers := valkeys(t, 3)
	s := scene{ttl: 4 * time.Second}
	for _, one := range servers {
		s.urls = append(s.urls, one.URL())
		s.disturb = append(s.disturb, func(progress func()) {
			one.Kill()
			progress()
			one.Restart()
			allVote(t, fenlock,
				s.urls)
		})
	}
	s.disturb = append(s.disturb, func(progress func()) { servers[0].Pause(); progress(); servers[0].Resume() })
	return s
}

func valkeys(t *testing.T, n int) []*testserver.Server {
	servers := testserver.Group(t, testserver.Kinds(t)[0], n)
	for _, s := range servers {
		s.MarkAdmitted(valkeynode.DefaultPrefix, 4*time.Second)
	}
	return servers
}

func postgres(t *testing.T, fenlock string) scene {
	server, ttl := testserver.StartPostgres(t), 4*time.Second
	migrate(t, fenlock, server.DSN())
	return scene{urls: []string{server.DSN()}, ttl: ttl, disturb: []func(func()){
		func(func()) { server.Kill(); server.Start() },
		pause(server, ttl/2),
		func(func()) { server.Stop(); server.Start() },
		pause(server, 2*ttl),
	}}
}

func mariadb(t *testing.T, fenlock string) scene {
	server, ttl := testserver.StartMariaDB(t), 4*time.Second
	migrate(t, fenlock, server.URL())
	return scene{urls: []string{server.URL()}, ttl: ttl, disturb: []func(func()){
		func(func()) { server.Kill(); server.Restart() },
		pause(server, ttl/2),
		pause(server, 2*ttl),
	}}
}

// etcd counts TTLs in whole seconds, and has none below two.
func etcd(t *testing.T, _ string) scene {
	cluster, ttl := testserver.StartEtcd(t, 3), 5*time.Second
	s := scene{urls: []string{"etcd://" + cluster.Addrs()}, ttl: ttl}
	for _, one := range cluster.Members {
		s.disturb = append(s.disturb, func(progress func()) { one.Kill(); progress(); cluster.Start(one) },
			func(progress func()) { one.Pause(); progress(); one.Resume() })
	}
	return s
}

func zookeeper(t *testing.T, _ string) scene {
	servers, ttl := testserver.StartZooKeepers(t, 3, nil), 5*time.Second
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

func nats(t *testing.T, fenlock string) scene {
	servers, ttl := testserver.StartNATSCluster(t, 3), 5*time.Second
	var hosts []string
	for _, one := range servers {
		hosts = append(hosts, one.Addr())
	}
	s := scene{urls: []string{"nats://" + strings.Join(hosts, ",") + "/LOCKS?replicas=3&sync_interval=always"}, ttl: ttl}
	for end := time.Now().Add(patience / 2); ; time.Sleep(100 * time.Millisecond) { // until they have elected a leader
		output, err := exec.Command(fenlock, "migrate", "-q", "--node", s.urls[0]).CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	for _, one := range servers {
		s.disturb = append(s.disturb, func(progress func()) { one.Kill(); progress(); one.Restart() },
			func(progress func()) { one.Pause(); progress(); one.Resume() })
	}
	return s
}

// A node of an object store has a slack of three seconds, by which a dead holder's lease is longer.
func bucket(t *testing.T, _ string) scene {
	server, ttl := testserver.StartVersity(t), 4*time.Second
	return scene{urls: []string{server.URL("bucket", "locks")}, ttl: ttl, disturb: []func(func()){
		func(func()) { server.Kill(); server.Restart() },
		pause(server, ttl/2),
		pause(server, 2*ttl),
	}}
}

// migrate makes the tables of a database.
func migrate(t *testing.T, fenlock, url string) {
	t.Helper()
	if output, err := exec.Command(fenlock, "migrate", "-q", "--node", url).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

// allVote waits until every node votes. A server that lost its memory is out for two TTLs, and
// rebuilds its registers from a majority. So the next kills must not leave less than that.
func allVote(t *testing.T, fenlock string, urls []string) {
	t.Helper()
	arguments := []string{"nodes", "--json"}
	for _, url := range urls {
		arguments = append(arguments, "--node", url)
	}
	var output []byte
	for end := time.Now().Add(patience / 2); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		var err error
		if output, err = exec.Command(fenlock, arguments...).Output(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		if bytes.Count(output, []byte(`"state":"votes"`)) == len(urls) {
			return
		}
	}
	t.Errorf("not all vote:\n%s", output)
}

// mixed has three Valkey servers and two PostgreSQL servers, of which any two may be down.
func mixed(t *testing.T, fenlock string) scene {
	servers, ttl := valkeys(t, 3), 4*time.Second
	one, two := testserver.StartPostgres(t), testserver.StartPostgres(t)
	s := scene{ttl: ttl}
	for _, p := range []*testserver.Postgres{one, two} {
		migrate(t, fenlock, p.DSN())
		s.urls = append(s.urls, p.DSN())
	}
	for _, v := range servers {
		s.urls = append(s.urls, v.URL())
	}
	s.disturb = []func(func()){
		func(progress func()) {
			one.Kill()
			two.Kill()
			progress()
			one.Start()
			two.Start()
			allVote(t, fenlock, s.urls)
		},
		func(progress func()) {
			servers[0].Kill()
			servers[1].Kill()
			progress()
			servers[0].Restart()
			servers[1].Restart()
			allVote(t, fenlock, s.urls)
		},
		func(progress func()) {
			one.Kill()
			servers[2].Kill()
			progress()
			one.Start()
			servers[2].Restart()
			allVote(t, fenlock, s.urls)
		},
	}
	return s
}
