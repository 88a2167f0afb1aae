//go:build linux && campaign

package slots

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// bridge is the switch that all hosts are at, and self the address of this process there.
const (
	bridge = "bridge0"
	self   = "10.36.0.1"
)

// network makes the switch.
func network() error {
	if err := syscall.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	return ip("link set lo up", "link add "+bridge+" type bridge", "addr add "+self+"/16 dev "+bridge,
		"link set "+bridge+" up")
}

// ip carries out commands of the program of that name.
func ip(commands ...string) error {
	for _, command := range commands {
		if said, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, said)
		}
	}
	return nil
}

// hosts counts the hosts that there have been.
var hosts atomic.Int64

// newHost makes a network namespace with an address, and has a cable lead from there to the switch.
func newHost(t testing.TB) testserver.Place {
	t.Helper()
	n := hosts.Add(1)
	address := fmt.Sprintf("10.36.%d.%d", 1+n/250, 1+n%250)
	host, cable := hostOf(address), cableOf(address)
	t.Cleanup(func() {
		if err := errors.Join(ip("link del "+cable), ip("netns del "+host)); err != nil {
			t.Error(err)
		}
	})
	if err := ip("netns add "+host, "link add "+cable+" type veth peer name eth0 netns "+host,
		"link set "+cable+" master "+bridge+" up", "-n "+host+" addr add "+address+"/16 dev eth0",
		"-n "+host+" link set lo up", "-n "+host+" link set eth0 up"); err != nil {
		t.Fatal(err)
	}
	return testserver.Place{Host: address, Via: []string{"ip", "netns", "exec", host}}
}

func hostOf(address string) string { return "h" + address }

func cableOf(address string) string {
	return "v" + strings.ReplaceAll(address[len("10.36."):], ".", "-")
}

// pull pulls a server's cable, and plugs it in again.
func (s *scene) pull(of *testserver.Server) (plug func()) {
	s.t.Helper()
	set := func(state string) {
		if err := ip("link set " + cableOf(addressOf(of)) + " " + state); err != nil {
			s.t.Fatal(err)
		}
	}
	set("down")
	return func() { set("up") }
}

// part has a server exchange nothing with others: each drops what it would send there.
func (s *scene) part(one *testserver.Server, others ...*testserver.Server) (join func()) {
	s.t.Helper()
	route := func(do string) {
		for _, other := range others {
			s.drop(do, one, addressOf(other))
			s.drop(do, other, addressOf(one))
		}
	}
	route("add")
	return func() { route("del") }
}

// drop begins (add) or ends (del) that a server drops what it would send to an address.
func (s *scene) drop(do string, at *testserver.Server, to string) {
	s.t.Helper()
	if err := ip("-n " + hostOf(addressOf(at)) + " route " + do + " blackhole " + to); err != nil {
		s.t.Fatal(err)
	}
}

func addressOf(s *testserver.Server) string {
	host, _, err := net.SplitHostPort(s.Addr())
	if err != nil {
		panic(err)
	}
	return host
}
