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
		out, err := apart("mount --bind "+mounts+" "+target, "asks", at)
		if out == unmountable {
			t.Logf("this machine lets nobody mount anything: %v", err)
			return
		}
		if err != nil || out != "held\n" {
			t.Errorf("in a container that has %s as %s: %q, %v", mounts, at, out, err)
		}
	}
}

// A disk that becomes full ends no lock: what is held can be extended and released. What was not written was not
// granted, and all is well when there is room again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	out, err := apart("mount -t tmpfs -o size=400k none "+dir, "fills", filepath.Join(dir, "locks"))
	if out == unmountable {
		t.Logf("this machine lets nobody mount anything: %v", err)
		return
	}
	if err != nil || !strings.HasSuffix(out, "\nwell\n") || !strings.Contains(out, "free some space") {
		t.Errorf("%q, %v", out, err)
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

// unmountable is what apart returns where nobody may mount anything.
const unmountable = "unmountable"

// apart starts this binary in a role on a file, where a mount was made first that nobody else sees.
func apart(mount, role, path string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("sh", "-c", mount+` || exit 99; exec "$1"`, "sh", self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, fileVariable+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if is := errors.As(err, &exit); err != nil && !is || is && exit.ExitCode() == 99 {
		return unmountable, fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}
