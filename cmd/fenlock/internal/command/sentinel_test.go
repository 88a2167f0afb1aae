//go:build linux || darwin || freebsd

package command

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The commands work on a primary that sentinels name, and the doctor says what becomes of it
// without its replica.
func TestSentinels(t *testing.T) {
	kind := testserver.Kinds(t)[0]
	primary, replica := testserver.Start(t, kind, "repl-diskless-sync-delay 0"), testserver.Start(t, kind)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica.Do("REPLICAOF", host, port)
	addrs := testserver.Sentinels(t, primary, 2)
	for !strings.Contains(primary.Do("INFO", "replication"), "state=online") {
		time.Sleep(10 * time.Millisecond)
	}
	primary.MarkAdmitted("fenlock:", 30*time.Second)
	url := "valkey-sentinel://" + strings.Join(addrs, ",") + "/" + testserver.SentinelMaster
	h := newHome(t, "FENLOCK_NODES="+url) // with a comma in it
	r := h.start("fenlock", "run", "orders", "--", "sh", "-c", "echo held; read x")
	if line := r.line(); line != "held" {
		t.Fatal(line)
	}
	if text := h.output(0, "ls"); !strings.Contains(text, "orders") {
		t.Errorf("ls: %s", text)
	}
	doctor := func() string {
		r := h.start("fenlock", "doctor", "--for", "0s")
		text := r.rest()
		r.status()
		return text
	}
	if text := doctor(); !strings.Contains(text, addrs[0]) || strings.Contains(text, "so that no lock can be taken") {
		t.Errorf("doctor: %s", text)
	}
	r.stdin.Close()
	r.want(1) // the shell's, of read
	replica.Kill()
	for strings.Contains(primary.Do("INFO", "replication"), "state=online") {
		time.Sleep(10 * time.Millisecond)
	}
	if text := doctor(); !strings.Contains(text, "0 of the 1 replicas") ||
		!strings.Contains(text, "fenlock-registers:fenlock: admitted ") || strings.Contains(text, "Locks can be taken") {
		t.Errorf("doctor: %s", text)
	}
	h.start("fenlock", "run", "--no-wait", "orders", "--", "true").want(69, "0 of the 1 replicas")
}
