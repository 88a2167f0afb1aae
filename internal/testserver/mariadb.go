//go:build unix

package testserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// MariaDB is one running MariaDB server with an empty database "locks", bound to the test
// that started it. The user root has no password.
type MariaDB struct {
	process
	settings []string
}

// mariadbData is a folder with a fresh installation's files, which is made once in a test
// binary and copied for each server.
var mariadbData struct {
	sync.Mutex
	files map[string][]byte // by path; nil is a folder
}

// StartMariaDB installs a server in a temporary folder and starts it, on a free loopback
// port. The settings are options of mariadbd, without the dashes: "max-connections=5". It takes
// a second or two: share a server among subtests. The test's end stops it and deletes its
// data. If the test runs as root the server does, too.
func StartMariaDB(t testing.TB, settings ...string) *MariaDB {
	t.Helper()
	return StartMariaDBWith(t, nil, settings...)
}

// StartMariaDBWith is StartMariaDB with more environment variables, "NAME=value" each, for
// all of the server's lives.
func StartMariaDBWith(t testing.TB, environment []string, settings ...string) *MariaDB {
	t.Helper()
	program, err := exec.LookPath("mariadbd")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/mariadbd")
	}
	if err != nil {
		t.Fatalf("the MariaDB server is not installed: %s", howToInstall)
	}
	folder := t.TempDir()
	m := &MariaDB{process: process{
		t: t, path: program, dir: folder, logPath: filepath.Join(folder, "log"),
		readyLine: "ready for connections", killSignal: syscall.SIGKILL, environment: environment,
	}, settings: settings}
	if err := installMariaDB(m.Data()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Kill)
	m.startAnywhere(m.startOnPort)
	return m
}

// URL returns "mysql://root@127.0.0.1:port/locks".
func (m *MariaDB) URL() string { return "mysql://root@" + m.Addr() + "/locks" }

// DSN returns what the Go driver calls the same.
func (m *MariaDB) DSN() string { return "root@tcp(" + m.Addr() + ")/locks" }

// Restart starts a server that is down again, with its data. With settings, these replace
// the ones that it was started with.
func (m *MariaDB) Restart(settings ...string) {
	m.t.Helper()
	if len(settings) > 0 {
		m.settings = settings
	}
	if err := m.startOnPort(); err != nil {
		m.t.Fatalf("restart: %v; its log:\n%s", err, m.Log())
	}
}

func (m *MariaDB) startOnPort() error {
	args := []string{
		"--no-defaults", "--datadir=" + m.Data(), "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(m.port),
		"--socket=" + filepath.Join(m.dir, "socket"), "--pid-file=" + filepath.Join(m.dir, "pid"), "--skip-name-resolve",
		"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=32M", "--performance-schema=OFF",
		"--aria-pagecache-buffer-size=8M",
		"--key-buffer-size=1M", "--tmpdir=" + m.dir,
	}
	if os.Getuid() == 0 {
		args = append(args, "--user=root")
	}
	for _, s := range m.settings {
		args = append(args, "--"+s)
	}
	return m.start(args, m.ready)
}

// ready returns nil if the server greets a client: a packet with the protocol's number,
// 10, and not an error.
func (m *MariaDB) ready() error {
	conn, err := m.connect(callTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	var head [5]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if head[4] != 10 {
		return fmt.Errorf("greeted with %d", head[4])
	}
	// A client that leaves without a word counts as a failed attempt of this host.
	rest := make([]byte, binary.LittleEndian.Uint32(append(head[:3:3], 0))-1)
	io.ReadFull(conn, rest)
	return nil
}

// installMariaDB makes a data folder.
func installMariaDB(folder string) error {
	mariadbData.Lock()
	defer mariadbData.Unlock()
	if mariadbData.files == nil {
		files, err := newMariaDB()
		if err != nil {
			return err
		}
		mariadbData.files = files
	}
	for path, content := range mariadbData.files {
		path = filepath.Join(folder, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if content == nil {
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		} else {
			err = errors.Join(err, os.WriteFile(path, content, 0o660))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newMariaDB runs the installation, with a log of 4 MiB, and reads what it has made.
func newMariaDB() (map[string][]byte, error) {
	temp, err := os.MkdirTemp("", "fenlock-mariadb-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	folder := filepath.Join(temp, "data")
	self, err := user.Current()
	if err != nil {
		return nil, err
	}
	install := exec.Command("mariadb-install-db", "--no-defaults", "--user="+self.Username,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--datadir="+folder,
		"--innodb-log-file-size=4M", "--skip-name-resolve")
	if output, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %v: %s (%s)", err, bytes.TrimSpace(output), howToInstall)
	}
	if err := os.MkdirAll(filepath.Join(folder, "locks"), 0o755); err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			files[name] = nil
			return nil
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	return files, err
}
