//go:build unix

package testserver

import (
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
	servers := Group(t, kind, n, append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, config...)...)
	for i, s := range servers {
		from, to := i*slots/n, (i+1)*slots/n-1
		s.must("OK", "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(from), fmt.Sprint(to))
		s.must("OK", "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for _, s := range servers[1:] {
		host, port, err := net.SplitHostPort(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		servers[0].must("OK", "CLUSTER", "MEET", host, port)
	}
	for _, s := range servers {
		var said string
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			said = s.Do("CLUSTER", "INFO")
			if strings.Contains(said, "cluster_state:ok") && strings.Contains(said, fmt.Sprint("cluster_size:", n, "\r\n")) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("no cluster after 20 s: %s", said)
			}
		}
	}
	return servers
}

func (s *Server) must(want string, args ...string) {
	s.t.Helper()
	if said := s.Do(args...); said != want {
		s.t.Fatalf("%s: %q: %s", s.Addr(), args, said)
	}
}
