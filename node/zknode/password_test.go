package zknode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// A password may be in a file, and is read for each connection.
func TestPasswordFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret:@\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, f := freshURL(), new(faulty)
	n := voting(t, strings.Replace(url, "zk://", "zk://lock@", 1)+"?passwordfile="+file, WithDial(f.dial))
	ready(t, open(t, strings.Replace(url, "zk://", "zk://lock:s3cret%3A%40@", 1)))
	refuses(t, open(t, url), true, "no permission")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	f.sever()
	f.cut.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := n.Do(ctx, as(node.Acquire, request("a", "me", 0)))
	if !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
		!strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	ready(t, n)
}
