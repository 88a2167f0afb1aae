//go:build linux || darwin || freebsd

package command

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fetch gets a page.
func fetch(t *testing.T, address string) (status int, body string) {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Get(address)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// The page shows what is locked, and ends with Ctrl-C.
func TestUI(t *testing.T) {
	h := newHome(t)
	end := h.hold("orders/42", "--label", "the holder")
	defer end()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		r := h.start("fenlock", "ui", "--listen", "127.0.0.1:0")
		address := r.line()
		status, body := fetch(t, address)
		for _, text := range []string{"orders/42", "the holder", "The node answers.", "1 lock is held"} {
			if status != 200 || !strings.Contains(body, text) {
				t.Errorf("%d, %q is not in\n%s", status, text, body)
			}
		}
		if strings.Contains(body, "Break") || strings.Contains(address, "token") {
			t.Error("locks can be broken by everybody")
		}
		// A page that is open does not keep it from ending.
		resp, err := http.Get(address + "events")
		must(t, err)
		defer resp.Body.Close()
		r.signal(sig)
		r.want(0, "the page ends")
		if rest := r.rest(); rest != "" {
			t.Errorf("printed %q as well", rest)
		}
	}
}

func TestUIToken(t *testing.T) {
	h := newHome(t)
	end := h.hold("orders/42")
	defer end()
	for _, args := range [][]string{{"--allow-release"}, {"--make-token"}, {"--make-token", "--listen", "0.0.0.0:0"}} {
		r := h.start(append([]string{"fenlock", "ui", "--listen", "127.0.0.1:0"}, args...)...)
		address := r.line()
		base, token, _ := strings.Cut(address, "?token=")
		if len(token) < 20 {
			t.Errorf("%q: the address is %s", args, address)
		}
		if status, body := fetch(t, base); status != 403 || strings.Contains(body, "orders") {
			t.Errorf("%q: without the token: %d", args, status)
		}
		if status, _ := fetch(t, address); status != 303 {
			t.Errorf("%q: with the token: %d", args, status)
		}
		r.signal(syscall.SIGINT)
		r.want(0)
		if strings.Contains(r.stderr.String(), token) {
			t.Errorf("%q: the token is printed twice", args)
		}
	}
	const token = "a token of a file"
	file := write(t, filepath.Join(t.TempDir(), "token"), token+"\n", 0o600)
	r := h.start("fenlock", "ui", "--listen", "127.0.0.1:0", "--allow-release", "--token-file", file)
	address := r.line()
	if strings.Contains(address, "token") {
		t.Errorf("the address is %s", address)
	}
	if status, _ := fetch(t, address+"?token="+url.QueryEscape(token)); status != 303 {
		t.Errorf("with the token of the file: %d", status)
	}
	r.signal(syscall.SIGTERM)
	r.want(0)
}

func TestUIUsage(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	h := newHome(t)
	h.hold("x")() // the file is there
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		return write(t, filepath.Join(dir, name), text, mode)
	}
	for _, c := range []struct {
		args   []string
		status int
		said   string
	}{
		{[]string{"--listen", taken.Addr().String()}, 64,
			"fenlock: --listen: " + taken.Addr().String() + " is in use by another program"},
		{[]string{"--history", "1m"}, 64, "--history is 1m0s, it must be 0 or 10m0s to 168h0m0s"},
		{[]string{"--history", "200h"}, 64, "--history is 200h0m0s"},
		{[]string{"--history", "-1h"}, 64, "--history is -1h0m0s"},
		{[]string{"--listen", "0.0.0.0:0"}, 64, "can be reached from other machines"},
		{[]string{"--host", "example.com:5625"}, 64, "is no name of a host"},
		{[]string{"--host", ""}, 64, "is no name of a host"},
		{[]string{"--make-token", "--token-file", file("t", "0123456789abcdef", 0o600)}, 64, "exclude each other"},
		{[]string{"--token-file", file("open", "0123456789abcdef", 0o644)}, 64, "chmod 600"},
		{[]string{"--token-file", file("short", "0123456789abcde", 0o600)}, 64, "the token has 15 bytes, at least 16"},
		{[]string{"--token-file", ""}, 64, "the file's name is empty"},
		{[]string{"a", "b"}, 64, "accepts at most 1 arg"},
		{[]string{"--node", "http://x"}, 64, "unknown scheme"},
		{[]string{"--node", "file://" + dir + "/none"}, 69, "there is no file"},
	} {
		r := h.start(append([]string{"fenlock", "ui", "--listen", "127.0.0.1:0"}, c.args...)...)
		r.want(c.status, c.said)
		if out := r.rest(); out != "" || strings.Contains(r.stderr.String(), "0123456789") {
			t.Errorf("%q printed %q", c.args, out)
		}
	}
}
