package filenode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// A container that has the file alone, or its folder, by a mount has the same file.
func TestFileMounted(t *testing.T) {
	n, path := newNode(t)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for at, mounts := range map[string]string{other: path, filepath.Join(dir, filepath.Base(path)): filepath.Dir(path)} {
		target := at
		if mounts != path {
			target = dir
		}
		if out := apart(t, "mount --bind "+mounts+" "+target, "", "asks", at); out != "held\n" {
			t.Errorf("in a container that has %s as %s: %q", mounts, at, out)
		}
	}
}

// In a time namespace the clock has an offset, which leases do not have.
func TestTimeNamespace(t *testing.T) {
	n, path := newNode(t)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	if out := apart(t, "unshare --time true", "unshare --time --boottime 86400 --", "asks", path); out != "held\n" {
		t.Errorf("in a container whose clock is a day ahead: %q", out)
	}
}

// A disk that becomes full ends no lock: what is held can be extended and released. What was not
// written was not granted, and all is well when there is room again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	out := apart(t, "mount -t tmpfs -o size=400k none "+dir, "", "fills", filepath.Join(dir, "locks"))
	if !strings.HasSuffix(out, "\nwell\n") || !strings.Contains(out, "free some space") {
		t.Errorf("%q", out)
	}
}

func init() { roles["asks"], roles["fills"] = asksOnce, fills }

// asksOnce says what becomes of an acquire.
func asksOnce(n *Node) {
	a, err := n.Do(context.Background(), as(node.Acquire, request("a", "", 0)))
	if err != nil {
		fatal(err)
	}
	fmt.Println(a.Status)
}

// fills takes locks until the disk is full.
func fills(n *Node) {
	do := func(r node.Request, want node.Status) node.Answer {
		a, err := n.Do(context.Background(), r)
		if err != nil || a.Status != want {
			fatal(fmt.Sprint(r.Op, " ", r.Name, ": ", a.Status, err))
		}
		return a
	}
	held := request("held", "me", 0)
	do(as(node.Acquire, held), node.Granted)
	refused := map[string]bool{}
	for i := range 200 {
		name := fmt.Sprint("name ", i)
		if roomOf(name) == roomOf("held") {
			continue // what is written there would be room for it
		}
		if _, err := n.Do(context.Background(), as(node.Acquire, request(name, "", 0))); err != nil {
			if len(refused) == 0 {
				fmt.Println(err)
			}
			refused[name] = true
		}
	}
	if len(refused) == 0 {
		fatal("the disk was never full")
	}
	held.Token, held.OwnToken = 1, 1
	do(as(node.Extend, held), node.Granted)
	do(as(node.Acquire, asks("held", clientA+":1", 1)), node.Held)
	do(as(node.Release, held), node.Granted)
	do(as(node.Acquire, held), node.Granted)
	again, err := OpenFile(n.path) // also on a full disk
	if err != nil {
		fatal(err)
	}
	again.Close()
	if err := syscall.Mount("none", filepath.Dir(n.path), "tmpfs", syscall.MS_REMOUNT, "size=4m"); err != nil {
		fatal(err)
	}
	for name := range refused {
		if a := do(as(node.Acquire, request(name, "", 0)), node.Granted); a.Register != 1 {
			fatal(fmt.Sprint(name, " was granted with ", a.Register, ": something is left"))
		}
	}
	fmt.Println("well")
}

// apart starts this binary in a role on a file, by a command if there is one. Something was done
// there first that other processes do not see. It takes no privileges where user namespaces are
// allowed, and root elsewhere.
func apart(t *testing.T, first, by, role, path string) (out string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	for _, namespaces := range []*syscall.SysProcAttr{
		{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: one(os.Getuid()), GidMappings: one(os.Getgid())},
		{Unshareflags: syscall.CLONE_NEWNS},
	} {
		cmd := exec.Command("sh", "-c", first+" || exit 99; exec "+by+` "$1"`, "sh", self)
		cmd.Env = append(os.Environ(), roleVariable+"="+role, fileVariable+"="+path)
		cmd.SysProcAttr = namespaces
		var b []byte
		if b, err = cmd.CombinedOutput(); err == nil {
			return string(b)
		}
		var exit *exec.ExitError
		if out = fmt.Sprintf("%v: %s", err, b); errors.As(err, &exit) && exit.ExitCode() != 99 {
			return out
		}
	}
	t.Fatalf("neither in a user namespace nor as root, %q cannot be done here, so that nothing is tested: %s", first, out)
	return ""
}
