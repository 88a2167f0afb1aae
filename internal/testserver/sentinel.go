//go:build unix

package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
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
	return Sentinels(t, primary, 1)[0]
}

// Sentinels starts n sentinels that watch a primary, of which a majority promotes a replica soon
// after it is down. It returns their addresses, when each knows of a replica and of the others. A
// line "requirepass PASSWORD" of the configuration is for clients and for the others. They know the
// primary by the address that it announces (replica-announce-ip).
func Sentinels(t testing.TB, primary *Server, n int, config ...string) (addrs []string) {
	t.Helper()
	for range n {
		addrs = append(addrs, startSentinel(t, primary, n, config))
	}
	password := passwordIn(config)
	for _, addr := range addrs {
		_, at, _ := net.SplitHostPort(addr)
		port, _ := strconv.Atoi(at)
		ask := &Server{process: process{t: t, port: port}, tls: primary.tls}
		ask.until(func() error {
			said, err := ask.Ask("", password, callTimeout, "SENTINEL", "SENTINELS", SentinelMaster)
			if err == nil && strings.Count(said, "runid") < n-1 {
				err = fmt.Errorf("the sentinel does not know %d others: %s", n-1, said)
			}
			return err
		})
	}
	return addrs
}

func passwordIn(config []string) (password string) {
	for _, line := range config {
		if value, ok := strings.CutPrefix(line, "requirepass "); ok {
			password = value
		}
	}
	return password
}

func startSentinel(t testing.TB, primary *Server, n int, config []string) (addr string) {
	t.Helper()
	folder, port := t.TempDir(), FreePort(t)
	addr = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	host, at, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range primary.config {
		if announced, ok := strings.CutPrefix(line, "replica-announce-ip "); ok {
			host = announced
		}
	}
	lines := []string{
		"bind 127.0.0.1", fmt.Sprint("port ", port), "dir " + folder,
		fmt.Sprintf("sentinel monitor %s %s %s %d", SentinelMaster, host, at, n/2+1),
		"sentinel down-after-milliseconds " + SentinelMaster + " 500",
		"sentinel failover-timeout " + SentinelMaster + " 3000",
	}
	if restriction != nil {
		lines = append(lines, "sentinel auth-user "+SentinelMaster+" "+Operator, "sentinel auth-pass "+SentinelMaster+" any")
	}
	lines = append(lines, config...)
	password := passwordIn(config)
	if password != "" {
		lines = append(lines, "sentinel sentinel-pass "+password)
	}
	if primary.tls != nil {
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", port), "tls-replication yes",
			"tls-ca-cert-file "+strconv.Quote(primary.CAFile), "tls-cert-file "+strconv.Quote(primary.CertFile),
			"tls-key-file "+strconv.Quote(primary.KeyFile), "tls-auth-clients optional")
	}
	file := filepath.Join(folder, "conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask := &Server{process: process{t: t, port: port}, tls: primary.tls}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	p, err := Launch(ctx, t, folder, primary.path, []string{file, "--sentinel"}, func() error {
		said, err := ask.Ask("", password, callTimeout, "SENTINEL", "REPLICAS", SentinelMaster)
		if err == nil && !strings.Contains(said, "ip") && primary.tls == nil { // that one has no replica
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
