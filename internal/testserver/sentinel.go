//go:build unix

package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// SentinelMaster is what a sentinel calls the primary that it watches.
const SentinelMaster = "primary"

// StartSentinel starts a sentinel that watches a primary, and alone promotes a replica of
// it soon after it is down. It returns the sentinel's address, when it knows of a replica.
// The test's end kills it.
func StartSentinel(t testing.TB, primary *Server) (addr string) {
	t.Helper()
	folder, port := t.TempDir(), FreePort(t)
	addr = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	host, at, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{
		"bind 127.0.0.1", fmt.Sprint("port ", port), "dir " + folder,
		fmt.Sprintf("sentinel monitor %s %s %s 1", SentinelMaster, host, at),
		"sentinel down-after-milliseconds " + SentinelMaster + " 500",
		"sentinel failover-timeout " + SentinelMaster + " 3000",
	}
	if restriction != nil {
		lines = append(lines, "sentinel auth-user "+SentinelMaster+" "+Operator, "sentinel auth-pass "+SentinelMaster+" any")
	}
	file := filepath.Join(folder, "conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask := &Server{process: process{t: t, port: port}}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	p, err := Launch(ctx, t, folder, primary.path, []string{file, "--sentinel"}, func() error {
		said, err := ask.Ask("", "", callTimeout, "SENTINEL", "REPLICAS", SentinelMaster)
		if err == nil && !strings.Contains(said, "ip") {
			err = errors.New("it knows of no replica: " + said)
		}
		return err
	})
	t.Cleanup(p.Kill)
	if err != nil {
		t.Fatalf("%v; its log:\n%s", err, p.Log())
	}
	return addr
}
