//go:build linux

package testserver

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Mounts reports whether this process may mount file systems, as a test is about to do. Where it
// may not, the test runs in another process, as root of namespaces of its own, and there is nothing
// left to do here.
func Mounts(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("none", dir, "tmpfs", 0, "")
	if err == nil {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
		return true
	}
	const inside = "FENLOCK_TEST_NAMESPACE"
	if os.Getenv(inside) != "" {
		t.Fatalf("root of a user namespace may not mount anything either: %v", err)
	}
	cmd := exec.Command("unshare", "-Urm", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, failed := cmd.CombinedOutput()
	if failed != nil {
		t.Fatalf("neither here (%v) nor in namespaces of its own (%v) has this been tested: %s", err, failed, out)
	}
	t.Logf("in namespaces of its own:\n%s", out)
	return false
}
