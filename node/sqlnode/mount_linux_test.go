package sqlnode

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func init() { roles["open"] = func(*Node) {} }

// A container that has the file alone has a log and locks of its own beside it.
func TestFileMountedByItself(t *testing.T) {
	if !isMountPoint("/proc") || isMountPoint(t.TempDir()) {
		t.Error("mounts are not told from folders")
	}
	_, path := newNode(t)
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	try := func(mounts, at, opens string) (string, error) {
		cmd := exec.Command("sh", "-c", `mount --bind "$1" "$2" || exit 99; exec "$3"`, "sh", mounts, at, self)
		cmd.Env = append(os.Environ(), roleVariable+"=open", fileVariable+"="+opens)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := try(path, other, other)
	var exit *exec.ExitError
	if is := errors.As(err, &exit); err != nil && !is || is && exit.ExitCode() == 99 {
		t.Logf("this machine lets nobody mount anything: %v %s", err, out)
		return
	}
	if !strings.Contains(out, "mounted by itself") {
		t.Errorf("opened a file that is mounted by itself: %v %s", err, out)
	}
	// With its folder it is the same for all.
	if out, err := try(filepath.Dir(path), dir, filepath.Join(dir, filepath.Base(path))); err != nil {
		t.Errorf("a folder that is mounted: %v %s", err, out)
	}
}
