//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// metricsAddress is one that is free.
func metricsAddress(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t)) }

// has waits until the metrics at an address have each text, and returns them.
func has(t *testing.T, address string, texts ...string) string {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		body, missing := "", "all"
		if resp, err := http.Get("http://" + address + "/metrics"); err == nil {
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			body, missing = string(text), ""
		}
		for _, text := range texts {
			if !strings.Contains(body, text) {
				missing = text
			}
		}
		if missing == "" {
			return body
		}
		if time.Now().After(end) {
			t.Fatalf("%q is not in\n%s", missing, body)
		}
	}
}

// They are there from before the lock is asked for, and go with the lock; a client that asks and
// does not go on keeps no command from ending.
func TestRunMetrics(t *testing.T) {
	h := newHome(t)
	end := h.hold("secret-name")
	at := metricsAddress(t)
	r := h.start("fenlock", "run", "--metrics", at, "secret-name", "--", "sh", "-c", "echo ready; read x; exit 3")
	has(t, at, "\nfenlock_waiting 1\n", "\nfenlock_held 0\n", "fenlock_node_admitted{fenlock_node_name=")
	end()
	text := has(t, at, "\nfenlock_waiting 0\n", "\nfenlock_held 1\n",
		`fenlock_wait_duration_seconds_count{fenlock_outcome="acquired"} 1`)
	if strings.Contains(text, "secret-name") {
		t.Errorf("the lock's name is in\n%s", text)
	}
	var hanging []net.Conn
	for _, said := range []string{"", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: "} {
		c, err := net.Dial("tcp", at)
		must(t, err)
		defer c.Close()
		io.WriteString(c, said)
		hanging = append(hanging, c)
	}
	r.line()
	r.stdin.Close()
	r.want(3)
	for _, c := range hanging {
		if n, err := io.Copy(io.Discard, c); n > 0 {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

func TestRunMetricsNames(t *testing.T) {
	h, at := newHome(t), metricsAddress(t)
	h.env = append(h.env, "FENLOCK_METRICS="+at, "FENLOCK_METRICS_NAMES=true")
	defer h.hold(`a "lock"`)()
	has(t, at, `fenlock_held{fenlock_lock_name="a \"lock\""} 1`)
}

// An address at which nothing can be served is an error before anything is begun. The command does
// not run, and there is no lock and no file of one.
func TestRunMetricsAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	token := write(t, filepath.Join(t.TempDir(), "token"), "0123456789abcdef\n", 0o600)
	open := write(t, filepath.Join(t.TempDir(), "token"), "0123456789abcdef\n", 0o644)
	for _, c := range []struct {
		env, args []string
		said      string
	}{
		{nil, []string{"--metrics", taken.Addr().String()},
			"--metrics: " + taken.Addr().String() +
				" is in use by another program, or by another fenlock run: choose another port"},
		{[]string{"FENLOCK_METRICS=" + taken.Addr().String()}, nil,
			"FENLOCK_METRICS: " + taken.Addr().String() + " is in use"},
		{nil, []string{"--metrics", "5626"}, `--metrics: "5626" is no address: HOST:PORT is wanted, such as 127.0.0.1:5626`},
		{nil, []string{"--metrics", "192.0.2.1:0", "--metrics-token-file", token},
			"192.0.2.1:0 is no address of this machine"},
		{nil, []string{"--metrics", "0.0.0.0:0"}, "can be reached from other machines, and every program that reaches it could read how the lock does: say --metrics-token-file, or listen at a loopback address such as 127.0.0.1:5626"},
		{nil, []string{"--metrics", "0.0.0.0:0", "--metrics-token-file", open}, "--metrics-token-file: "},
		{nil, []string{"--metrics", "127.0.0.1:0", "--metrics-token-file", ""}, "--metrics-token-file: "},
	} {
		h := newHome(t, c.env...)
		r := h.start(append(append([]string{"fenlock", "run"}, c.args...), "a", "--", "echo", "it ran")...)
		r.want(exitUsage, c.said)
		if rest := r.rest(); rest != "" {
			t.Errorf("%q: printed %q", c.args, rest)
		}
		if files, _ := os.ReadDir(h.state); len(files) > 0 {
			t.Errorf("%q: made %v", c.args, files)
		}
	}
}

// With a token, all addresses are listened at, and who does not know it is refused.
func TestRunMetricsToken(t *testing.T) {
	const token = "0123456789abcdef"
	path := write(t, filepath.Join(t.TempDir(), "token"), token+"\n", 0o600)
	h, port := newHome(t), testserver.FreePort(t)
	defer h.hold("a", "--metrics", fmt.Sprintf("0.0.0.0:%d", port), "--metrics-token-file", path)()
	for given, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer " + token: 200} {
		r, err := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d/metrics", port), nil)
		must(t, err)
		r.Header.Set("Authorization", given)
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || (want == 200) != strings.Contains(string(text), "fenlock_held 1") {
			t.Errorf("%q: %d\n%s", given, resp.StatusCode, text)
		}
	}
}

// A port that the system chose is told. A fenlock in the command is not told to have the address of
// the one around it.
func TestRunMetricsInside(t *testing.T) {
	h := newHome(t, "FENLOCK_METRICS=127.0.0.1:0", "FENLOCK_METRICS_NAMES=true")
	r := h.start("fenlock", "run", "a", "--", "sh", "-c", "env | grep FENLOCK_METRICS; fenlock run b -- echo within")
	r.want(0, "metrics are at http://127.0.0.1:")
	if rest := r.rest(); rest != "FENLOCK_METRICS_NAMES=true\nwithin\n" {
		t.Errorf("printed %q", rest)
	}
	if n := strings.Count(r.stderr.String(), "metrics are at"); n != 1 {
		t.Errorf("%d of them serve metrics:\n%s", n, &r.stderr)
	}
}
