//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// slots is the number of slots of a cluster.
const slots = 16384

// Cluster starts n servers that are the primaries of one cluster, each with as many of its slots.
// It waits until all of them say that the cluster works. See Start.
func Cluster(t testing.TB, kind Kind, n int, config ...string) []*Server {
	t.Helper()
	servers := Group(t, kind, n, append(clustered(), config...)...)
	for i, s := range servers {
		from, to := i*slots/n, (i+1)*slots/n-1
		s.must("OK", "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(from), fmt.Sprint(to))
		s.must("OK", "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for _, s := range servers[1:] {
		servers[0].meet(s)
	}
	for _, s := range servers {
		s.awaitCluster("cluster_state:ok", fmt.Sprint("cluster_size:", n, "\r\n"),
			fmt.Sprint("cluster_known_nodes:", n, "\r\n"))
	}
	return servers
}

func clustered() []string { return []string{"cluster-enabled yes", "cluster-node-timeout 2000"} }

// AddReplicas starts a replica of each primary of a cluster, and waits until it has the data. The
// i-th replica is the i-th primary's.
func AddReplicas(t testing.TB, primaries []*Server, config ...string) (replicas []*Server) {
	t.Helper()
	config = append(append(clustered(), "repl-diskless-sync-delay 0", "cluster-replica-validity-factor 0"), config...)
	replicas = Group(t, primaries[0].kind, len(primaries), config...)
	for _, r := range replicas {
		primaries[0].meet(r)
	}
	all := len(primaries) + len(replicas)
	for i, r := range replicas {
		r.awaitCluster(fmt.Sprint("cluster_known_nodes:", all, "\r\n"))
		r.must("OK", "CLUSTER", "REPLICATE", primaries[i].Do("CLUSTER", "MYID"))
	}
	for i, r := range replicas {
		r.until(func() error {
			if r.Info("replication", "master_link_status") != "up" {
				return errors.New("the link to the primary is not up")
			}
			return nil
		})
		primaries[i].until(func() error { // which sends it what is written, and counts it, only then
			if said := primaries[i].Do("INFO", "replication"); !strings.Contains(said, "state=online") {
				return errors.New(said)
			}
			return nil
		})
		// All others know whose replica it is: they are asked for their votes.
		for _, s := range primaries {
			s.until(func() error {
				if nodes := s.Do("CLUSTER", "NODES"); !strings.Contains(nodes, " slave "+primaries[i].Do("CLUSTER", "MYID")) {
					return errors.New(nodes)
				}
				return nil
			})
		}
		r.awaitCluster("cluster_state:ok")
	}
	return replicas
}

// Owner returns which of some servers of a cluster serves the slot of a key, nil if none does.
func Owner(key string, servers ...*Server) *Server {
	for _, s := range servers {
		if s.Pid() == 0 {
			continue
		}
		if said, err := s.operate("EXISTS", key); err == nil && (said == "0" || said == "1") {
			return s
		}
	}
	return nil
}

// meet has a server know another one of its cluster.
func (s *Server) meet(other *Server) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(other.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	s.must("OK", "CLUSTER", "MEET", host, port)
}

// awaitCluster waits until what the server says of its cluster has all of this.
func (s *Server) awaitCluster(want ...string) {
	s.t.Helper()
	s.until(func() error {
		said := s.Do("CLUSTER", "INFO")
		for _, text := range want {
			if !strings.Contains(said, text) {
				return errors.New(said)
			}
		}
		return nil
	})
}

// until waits until there is no error.
func (s *Server) until(try func() error) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	s.t.Fatalf("%s, after 3 minutes: %v; its log:\n%s", s.Addr(), err, s.Log())
}

func (s *Server) must(want string, args ...string) {
	s.t.Helper()
	if said := s.Do(args...); said != want {
		s.t.Fatalf("%s: %q: %s", s.Addr(), args, said)
	}
}
