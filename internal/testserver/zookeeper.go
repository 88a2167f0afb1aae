//go:build unix

package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ZooKeeper is one running ZooKeeper server, bound to the test that started it.
type ZooKeeper struct {
	process
	id     int
	config []string // "key=value"; later ones override earlier ones
}

// StartZooKeeper starts a server that is an ensemble of its own, on a free loopback port.
// Configuration is given as in zoo.cfg, "key=value" each, and overrides the defaults: ticks
// of half a second, sessions of up to ten minutes. It takes a second or two: share a server among
// subtests. The test's end kills it.
func StartZooKeeper(t testing.TB, config ...string) *ZooKeeper {
	t.Helper()
	return StartZooKeeperWith(t, nil, config...)
}

// StartZooKeeperWith is StartZooKeeper with more environment variables, "NAME=value" each,
// for all of the server's lives.
func StartZooKeeperWith(t testing.TB, environment []string, config ...string) *ZooKeeper {
	t.Helper()
	z := newZooKeeper(t, 0, config)
	z.environment = environment
	z.startAnywhere(z.startOnPort)
	return z
}

// ZooKeepers are the servers of one ensemble.
type ZooKeepers []*ZooKeeper

// StartZooKeepers starts an ensemble of n servers, and waits until all of them serve. What servers
// say to each other goes by way of between. It returns the address that server `from` is told for
// an address of server `to`, both from 1 on; nil: directly.
func StartZooKeepers(t testing.TB, n int, between func(from, to int, address string) string,
	config ...string) ZooKeepers {
	t.Helper()
	type ports struct{ peer, election int }
	var all ZooKeepers
	inner := make([]ports, n)
	for i := range n {
		inner[i] = ports{FreePort(t), FreePort(t)}
	}
	via := func(from, to, port int) string {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if from != to && between != nil {
			return between(from, to, address)
		}
		return address
	}
	for i := range n {
		lines := slices.Clone(config)
		lines = append(lines, "initLimit=20", "syncLimit=8") // an election that goes wrong costs initLimit ticks
		for j, p := range inner {
			_, election, _ := net.SplitHostPort(via(i+1, j+1, p.election))
			lines = append(lines, fmt.Sprintf("server.%d=%s:%s", j+1, via(i+1, j+1, p.peer), election))
		}
		z := newZooKeeper(t, i+1, lines)
		z.port = FreePort(t)
		all = append(all, z)
	}
	var wait sync.WaitGroup
	errs := make([]error, n)
	for i, z := range all {
		wait.Go(func() { errs[i] = z.startOnPort() })
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("zookeeper: %v; its log:\n%s", err, all[i].Log())
		}
	}
	return all
}

// Addrs returns the servers' addresses, with commas between.
func (all ZooKeepers) Addrs() string {
	var addrs []string
	for _, z := range all {
		addrs = append(addrs, z.Addr())
	}
	return strings.Join(addrs, ",")
}

// Leader waits until one of the servers that answer is the leader, for up to 30 seconds.
func (all ZooKeepers) Leader(t testing.TB) *ZooKeeper {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, z := range all {
			if z.Pid() != 0 && z.Mode() == "leader" {
				return z
			}
		}
	}
	t.Fatal("the ensemble has no leader")
	return nil
}

func newZooKeeper(t testing.TB, id int, config []string) *ZooKeeper {
	t.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		t.Fatalf("there is no Java, which ZooKeeper needs: %s", howToInstall)
	}
	if zookeeperJars() == "" {
		t.Fatalf("ZooKeeper is not installed: %s", howToInstall)
	}
	folder := t.TempDir()
	z := &ZooKeeper{id: id, config: append([]string{
		"tickTime=500", "minSessionTimeout=1000", "maxSessionTimeout=600000", "maxClientCnxns=0",
		"admin.enableServer=false", "4lw.commands.whitelist=srvr,conf",
	}, config...), process: process{
		t: t, path: java, dir: folder, logPath: filepath.Join(folder, "log"), killSignal: syscall.SIGKILL,
	}}
	if err := os.Mkdir(z.Data(), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Kill)
	return z
}

// zookeeperJars is the class path, of Debian's package libzookeeper-java; empty if that
// is not installed.
var zookeeperJars = sync.OnceValue(func() string {
	var jars []string
	for _, jar := range []string{"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty", "netty-handler",
		"netty-transport", "netty-common", "netty-buffer", "netty-codec", "metrics-core", "snappy-java", "commons-io",
		"commons-cli"} {
		path := "/usr/share/java/" + jar + ".jar"
		if _, err := os.Stat(path); err == nil {
			jars = append(jars, path)
		}
	}
	if len(jars) == 0 || !strings.HasSuffix(jars[0], "/zookeeper.jar") {
		return ""
	}
	return strings.Join(jars, ":")
})

func (z *ZooKeeper) startOnPort() error {
	lines := append([]string{"clientPortAddress=127.0.0.1", fmt.Sprint("clientPort=", z.port), "dataDir=" + z.Data()},
		z.config...)
	if z.id > 0 {
		if err := os.WriteFile(filepath.Join(z.Data(), "myid"), []byte(strconv.Itoa(z.id)), 0o644); err != nil {
			return err
		}
	}
	file := filepath.Join(z.dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	args := []string{"-cp", zookeeperJars(), "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.extendedTypesEnabled=false",
		// An election that began badly goes on after a second, and not after up to a minute.
		"-Dzookeeper.fastleader.maxNotificationInterval=1000",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file}
	return z.start(args, z.serves)
}

// serves returns nil if the server has a quorum.
func (z *ZooKeeper) serves() error {
	if mode := z.Mode(); mode != "leader" && mode != "follower" && mode != "standalone" {
		return fmt.Errorf("its mode is %q", mode)
	}
	return nil
}

// Mode returns what the server is: leader, follower, standalone, read-only, or empty if it
// does not say.
func (z *ZooKeeper) Mode() string {
	text, _ := z.Say("srvr")
	for line := range strings.Lines(text) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

// Say sends a word of four letters, and returns the answer.
func (z *ZooKeeper) Say(word string) (string, error) {
	conn, err := z.connect(time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(bufio.NewReader(conn))
	if err == nil && len(text) == 0 {
		err = errors.New("no answer")
	}
	return string(text), err
}

// Begin starts the server again after Kill or Stop, with the same port and folder. It waits until
// the server has a quorum, up to 30 seconds.
func (z *ZooKeeper) Begin() error {
	if z.Pid() != 0 {
		return errors.New("it is running")
	}
	return z.startOnPort()
}

// Wipe deletes the data of a server that is down.
func (z *ZooKeeper) Wipe() { z.t.Helper(); z.wipe() }
