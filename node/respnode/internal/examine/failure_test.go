package examine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

func TestFailure(t *testing.T) {
	said := func(text string) error {
		m, _ := replytest.Message([]byte("-" + text + "\r\n"))
		return m.Err()
	}
	for _, c := range []struct {
		err      error
		check    string
		severity node.Severity
		says     string
	}{
		{said("WRONGPASS invalid username-password pair or user is disabled."), "password", node.Error,
			"The user or the password is wrong"},
		{said("NOAUTH Authentication required."), "password", node.Error, "ACL SETUSER"},
		{said("ERR invalid password"), "password", node.Error, "%40"},
		{said("DENIED Redis is running in protected mode"), "protected-mode", node.Error, "bind"},
		{said("NOPERM User u has no permissions to run the 'info' command"), "permissions", node.Error, "fenlock acl"},
		{said("LOADING Valkey is loading the dataset in memory"), "loading", node.Warning, "Wait"},
		{said("BUSY Valkey is busy running a script."), "busy", node.Warning, "SCRIPT KILL"},
		{said("MASTERDOWN Link with MASTER is down"), "replica", node.Error, "REPLICAOF NO ONE"},
		{said("ERR something new"), "fails", node.Warning, "Something new"},
		{Silence{2 * time.Second, true}, "hangs", node.Warning, "kill -CONT"},
		{Silence{2 * time.Second, false}, "unreachable", node.Warning, "firewall"},
		{&net.OpError{Err: &net.DNSError{Err: "no such host", Name: "db1"}}, "address", node.Warning, "no such host"},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "down", node.Warning, "Nothing listens"},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, "unreachable", node.Warning, "route"},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ENOENT)}, "down", node.Warning, "unixsocket"},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.EACCES)}, "socket", node.Warning, "unixsocketperm"},
		{engine.Misconfiguredf("the server wants TLS: in the URL's scheme write valkeys for valkey"), "misconfigured",
			node.Error, "The server wants TLS"},
		{io.EOF, "fails", node.Warning, "EOF"},
	} {
		f := Failure(c.err, command.Errors{Name: "n"}.Describe(c.err))
		if f.Check != c.check || f.Severity != c.severity || !strings.Contains(f.Reason+" "+f.Advice, c.says) {
			t.Errorf("%v: %+v; want %s, a %v, with %q", c.err, f, c.check, c.severity, c.says)
		}
		sentence(t, f)
	}
}

// A server that repeats the password is not quoted.
func TestFailureHasNoPassword(t *testing.T) {
	m, _ := replytest.Message([]byte("-ERR unknown command `AUTH`, with args beginning with: `hunter22`\r\n"))
	err := m.Err()
	f := Failure(err, command.Errors{Name: "n", Secrets: resp.NewSecrets("hunter22")}.Describe(err))
	if strings.Contains(fmt.Sprint(f), "hunter22") || f.Reason == "" {
		t.Errorf("%+v", f)
	}
}

// A caller that gave up tells apart what never connected.
func TestSilence(t *testing.T) {
	for _, connected := range []bool{true, false} {
		s := Silence{After: time.Second, Connected: connected}
		if !errors.Is(s, context.DeadlineExceeded) || strings.Contains(s.Error(), "takes the connection") != connected {
			t.Error(s)
		}
	}
}

// What a member says of its slot may pass, if the URL is that of a cluster.
func TestSlotThatIsNotServed(t *testing.T) {
	for _, text := range []string{"MOVED 1 10.0.0.1:6379", "ASK 1 10.0.0.1:6379", "TRYAGAIN", "CLUSTERDOWN"} {
		err := error(resp.Error(text))
		f := Failure(err, command.Errors{Name: "n", Cluster: true}.Describe(err))
		if f.Check != "cluster" || f.Severity != node.Warning || !strings.Contains(f.Advice, "CLUSTER NODES") {
			t.Errorf("%s: %+v", text, f)
		}
		if f = Failure(err, command.Errors{Name: "n"}.Describe(err)); f.Check != "misconfigured" {
			t.Errorf("%s, of a server: %+v", text, f)
		}
	}
}
