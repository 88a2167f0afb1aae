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
	if inNamespaces() {
		t.Fatalf("root of a user namespace may not mount anything either: %v", err)
	}
	again(t, err, "-Urm")
	return false
}

// inside is set in a process that runs in namespaces of its own.
const inside = "FENLOCK_TEST_NAMESPACE"

func inNamespaces() bool { return os.Getenv(inside) != "" }

// Apart runs the test in namespaces of its own, as unshare makes them with these flags, and reports
// whether this is there. Whatever a test does there ends with it.
func Apart(t *testing.T, flags string) bool {
	t.Helper()
	if !inNamespaces() {
		again(t, nil, flags)
		return false
	}
	return true
}

// again runs the test in namespaces of its own, as unshare makes them, and logs what it printed.
// Why is the reason, or nil.
func again(t *testing.T, why error, flags string) {
	t.Helper()
	cmd := exec.Command("unshare", flags, os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, failed := cmd.CombinedOutput()
	if failed != nil {
		t.Fatalf("neither here (%v) nor in namespaces of its own (%v) has this been tested: %s", why, failed, out)
	}
	t.Logf("in namespaces of its own:\n%s", out)
}
