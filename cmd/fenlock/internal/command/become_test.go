//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// beside returns a folder with fenlock and, unless that is empty, a script as fenlock-all.
func beside(t *testing.T, script string) (folder string) {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	text, err := os.ReadFile(program)
	must(t, err)
	write(t, filepath.Join(folder, "fenlock"), string(text), 0o755)
	if script != "" {
		write(t, filepath.Join(folder, allProgram), "#!/bin/sh\n"+script+"\n", 0o755)
	}
	return folder
}

// A program that is started with each locked command links no library that this would pay for.
func TestFenlockLinksLittle(t *testing.T) {
	large := []string{
		"google.golang.org/", "go.etcd.io/", "github.com/jackc/", "github.com/go-sql-driver/", "database/sql",
		"net/http", "html/template", "github.com/fenlock/fenlock/node/etcdnode", "github.com/fenlock/fenlock/node/mysqlnode",
		"github.com/fenlock/fenlock/node/pgnode", "github.com/fenlock/fenlock/node/zknode",
		"github.com/fenlock/fenlock/node/bucketnode",
		"github.com/fenlock/fenlock/node/natsnode",
		"github.com/minio/",
		module + "/internal/ui", module + "/internal/demo", module + "/internal/metrics",
	}
	links := func(pkg string) (found []string) {
		said, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		for _, prefix := range large {
			if strings.Contains("\n"+string(said), "\n"+prefix) {
				found = append(found, prefix)
			}
		}
		return found
	}
	if found := links(module); len(found) > 0 {
		t.Errorf("fenlock links %q", found)
	}
	if found := links(module + "/" + allProgram); !slices.Equal(found, large) {
		t.Errorf("%s links %q, and is to have all of %q", allProgram, found, large)
	}
}

// What fenlock does not have, it hands over, before it has printed or opened anything. That is all
// that has to do with nodes, for each scheme and wherever nodes are named, and whole subcommands.
// The rest it does itself.
func TestBecome(t *testing.T) {
	folder := beside(t, `echo "handed over: $0 $*"`)
	file := filepath.Join(folder, "nodes")
	state := filepath.Join(folder, "state")
	run := func(variable string, args ...string) (out, said string) {
		t.Helper()
		os.RemoveAll(state)
		cmd := exec.Command(filepath.Join(folder, "fenlock"), args...)
		cmd.Env = []string{"XDG_STATE_HOME=" + state, "FENLOCK_LOCLA=unknown", "PATH=" + os.Getenv("PATH")}
		if variable != "" {
			cmd.Env = append(cmd.Env, variable)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		text, _ := cmd.Output()
		return string(text), stderr.String()
	}
	handed := func(variable string, args ...string) {
		t.Helper()
		want := fmt.Sprintf("handed over: %s %s\n", filepath.Join(folder, allProgram), strings.Join(args, " "))
		if out, said := run(variable, args...); out != want || said != "" {
			t.Errorf("%s fenlock %q: printed %q and %q", variable, args, out, said)
		}
		if _, err := os.Stat(state); err == nil {
			t.Errorf("%s fenlock %q has made a file", variable, args)
		}
	}
	kept := func(variable string, args ...string) {
		t.Helper()
		if out, _ := run(variable, args...); strings.Contains(out, "handed over") {
			t.Errorf("%s fenlock %q is handed over", variable, args)
		}
	}

	// Each subcommand that has nodes, as it is called without them.
	arguments := map[string][]string{
		"run": {"x", "--", "true"}, "hold": {"x"}, "inspect": {"x"}, "release": {"--force", "--yes", "x"},
		"ls": nil, "nodes": nil, "doctor": {"--for", "0"}, "migrate": {"--dry-run"}, "ui": nil,
	}
	for _, cmd := range rootCommand("").Commands() {
		if _, known := arguments[cmd.Name()]; cmd.Flags().Lookup("nodes-file") != nil && !known {
			t.Errorf("fenlock %s has nodes, and is not tried", cmd.Name())
		}
	}
	const url = "://user:secret@127.0.0.1:1"
	for name, rest := range arguments {
		with := func(flags ...string) []string { return slices.Concat([]string{name}, flags, rest) }
		for _, e := range engines {
			for _, scheme := range e.schemes {
				if e.name == valkeyEngine || e.name == clusterEngine || e.name == fileEngine {
					continue
				}
				write(t, file, "# nodes\nvalkey://127.0.0.1:1\n"+scheme+url+"\n", 0o600)
				handed("", with("--node", "valkey://127.0.0.1:1", "--node", scheme+url)...)
				handed("FENLOCK_NODES=valkey://127.0.0.1:1,"+scheme+url, with()...)
				handed("", with("--nodes-file", file)...)
				handed("FENLOCK_NODES_FILE="+file, with()...)
				if name != "ui" {
					// What is stronger says that they are not asked.
					kept("FENLOCK_NODES="+scheme+url, with("--local")...)
					kept("", with("--node", scheme+url, "--nodes-file", file)...)
				}
			}
		}
	}
	handed("FENLOCK_NODES=etcd"+url, "__complete", "run", "")
	handed("", "ui")
	handed("", "demo", "paused")
	handed("", "demo", "client")
	handed("", "run", "--metrics", "127.0.0.1:0", "x", "--", "true")
	handed("FENLOCK_METRICS=127.0.0.1:0", "run", "x", "--", "true")
	kept("", "run", "x", "--", "true")
	kept("", "run", "--node", "http"+url, "x", "--", "true")
	kept("", "run", "--node", "valkey"+url, "--no-wait", "x", "--", "true")
	kept("", "ui", "--nope")

	// Of these it says all by itself.
	for _, args := range [][]string{
		{"--help"}, {"help", "ui"}, {"demo", "--help"}, {"run", "--help"}, {"completion", "bash"}, {"__complete", "ui", "--"},
	} {
		here, _ := run("", args...)
		there, err := exec.Command(filepath.Join(filepath.Dir(program), allProgram), args...).Output()
		if here == "" || here != string(there) || err != nil {
			t.Errorf("fenlock %q prints %d bytes, %s %d: %v", args, len(here), allProgram, len(there), err)
		}
	}
}

// It is the same process. The command sees the same as of a fenlock that has not handed over: the
// environment, descriptors, signals and the exit status.
func TestHandedOver(t *testing.T) {
	h := newHome(t)
	const command = `echo $PPID; env | grep -v -e '^_=' -e '^FENLOCK_TOKEN=' -e '^FENLOCK_HELD=' | sort
		echo to three >&3; read x; exit 7`
	sees := func(flags string) string {
		t.Helper()
		r := h.start("sh", "-c", "exec fenlock run "+flags+` a -- sh -c "$0" 3>&1`, command)
		r.line()
		r.stdin.Close()
		text := r.rest()
		r.want(7)
		return text
	}
	alone := sees("--local")
	handed := sees("--local --metrics 127.0.0.1:0")
	if handed != alone || !strings.Contains(alone, "to three") || strings.Contains(alone, handedVariable) {
		t.Errorf("handed over, the command sees\n%sand else\n%s", handed, alone)
	}

	r := h.start("fenlock", "run", "--metrics", "127.0.0.1:0", "a", "--", "sh", "-c", "echo ready; read x")
	r.line()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.cmd.Process.Pid))
	if runtime.GOOS == "linux" && filepath.Base(exe) != allProgram {
		t.Errorf("process %d is %s: %v", r.cmd.Process.Pid, exe, err)
	}
	r.signal(syscall.SIGTERM)
	r.want(128 + int(syscall.SIGTERM))

	h.start("env", "-i", program, "ui", "--host", ":").want(exitUsage, "is no name of a host")
	// Each engine is there, and says why it cannot be used.
	for _, url := range []string{
		"postgres://u@127.0.0.1:1/d", "mysql://u@127.0.0.1:1/d", "etcd://127.0.0.1:1", "zk://127.0.0.1:1",
		"s3://k:s@127.0.0.1:1/bucket/locks", "nats://127.0.0.1:1/LOCKS",
	} {
		h.start("fenlock", "run", "--no-wait", "--node", url, "a", "--", "true").want(exitNoQuorum, "127.0.0.1:1")
	}
}

// fenlock-all is looked for beside fenlock, wherever that is called from, and nowhere else.
func TestBecomeByALink(t *testing.T) {
	folder, other := beside(t, "echo beside"), t.TempDir()
	link := filepath.Join(other, "fenlock")
	must(t, os.Symlink(filepath.Join(folder, "fenlock"), link))
	write(t, filepath.Join(other, allProgram), "#!/bin/sh\necho beside the link\n", 0o755)
	cmd := exec.Command(link, "ui")
	cmd.Env = []string{"PATH=" + other}
	if out, err := cmd.Output(); string(out) != "beside\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Where it cannot hand over, nothing was begun, and it says what to do.
func TestBecomeFails(t *testing.T) {
	elsewhere := beside(t, "echo from the PATH")
	all := filepath.Join(filepath.Dir(program), allProgram)
	for _, test := range []struct {
		script string
		mode   os.FileMode
		link   string
		said   []string
	}{
		{"", 0, "", []string{
			"no such file or directory", `"make build" makes both`, `"go run ./cmd/fenlock/fenlock-all run ..."`,
		}},
		{"echo it ran", 0o644, "", []string{"permission denied"}},
		{"", 0, "fenlock", []string{"fenlock-all beside fenlock is fenlock itself"}},
		// As a fenlock of another release would.
		{handedVariable + "=v0.9.0 exec '" + all + `' "$@"`, 0o755, "", []string{
			"fenlock is v0.9.0, and fenlock-all beside it is ", "of one release",
		}},
	} {
		folder := beside(t, test.script)
		if test.mode != 0 {
			must(t, os.Chmod(filepath.Join(folder, allProgram), test.mode))
		}
		if test.link != "" {
			must(t, os.Symlink(test.link, filepath.Join(folder, allProgram)))
		}
		h := newHome(t)
		r := h.start("env", "PATH="+elsewhere, filepath.Join(folder, "fenlock"),
			"run", "--node", "zk://127.0.0.1:1", "x", "--", "echo", "it ran")
		out := r.rest()
		r.want(exitNoQuorum, append(test.said, "fenlock-all")...)
		if said := r.stderr.String(); out != "" || strings.Count(said, "\n") != 1 || strings.Contains(said, "from the PATH") {
			t.Errorf("printed %q and %q", out, said)
		}
		if files, _ := os.ReadDir(h.state); len(files) > 0 {
			t.Errorf("made %v", files)
		}
		// What needs nothing of it is not affected.
		h.start(filepath.Join(folder, "fenlock"), "run", "--local", "x", "--", "true").want(0)
	}
}

// A link chooses the folder of a setuid program: its maker must not get that user's rights. (Root
// only, as in continuous integration, can make such a program.)
func TestBecomeIsRefusedToASetuidProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	folder := beside(t, "echo it ran")
	for path := folder; len(path) > len(os.TempDir()); path = filepath.Dir(path) {
		must(t, os.Chmod(path, 0o755))
	}
	path := filepath.Join(folder, "fenlock")
	must(t, os.Chmod(path, 0o755|os.ModeSetuid))
	cmd := exec.Command(path, "ui")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	said := string(out)
	if cmd.ProcessState.ExitCode() != exitNoQuorum || !strings.Contains(said, "setuid") ||
		strings.Contains(said, "it ran") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRemedy(t *testing.T) {
	cmd := &cobra.Command{Use: "fenlock"}
	sub := &cobra.Command{Use: "ui [PREFIX]"}
	cmd.AddCommand(sub)
	if got := remedy(sub, ""); !strings.Contains(got, `"go run ./cmd/fenlock/fenlock-all ui ..."`) {
		t.Errorf("%q", got)
	}
	if got := remedy(sub, "v1.2.3"); !strings.HasSuffix(got,
		"go install github.com/fenlock/fenlock/cmd/fenlock/...@v1.2.3") {
		t.Errorf("%q", got)
	}
}
