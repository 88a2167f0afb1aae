package examine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Silence is the error of a server that did not answer in time.
type Silence struct {
	After     time.Duration
	Connected bool // it took the connection
}

// Error says what is silent, which tells where to look.
func (s Silence) Error() string {
	if s.Connected {
		return fmt.Sprintf("it takes the connection and does not answer within %v", s.After)
	}
	return fmt.Sprintf("no connection within %v", s.After)
}

// Is makes it match context.DeadlineExceeded.
func (s Silence) Is(target error) bool { return target == context.DeadlineExceeded }

// refusals are what to do about what a server says before it answers anything.
var refusals = []struct {
	check  string
	said   []string
	advice string
}{
	{"password", []string{"WRONGPASS", "NOAUTH", "invalid password", "AUTH", "Client sent AUTH"},
		"Correct the user and the password in this node's URL (@ / : # are written %40 %2F %3A %23), or set them on the server: ACL SETUSER."},
	{"protected-mode", []string{"DENIED"},
		"Give the server a user with a password, and an address to listen at (bind): without either it answers to its own machine only."},
	{"permissions", []string{"NOPERM"}, "Allow the user what fenlock acl prints: ACL SETUSER, and save it."},
	{"loading", []string{"LOADING"},
		"Wait. With a large file that belongs to something else, give the locks a server of their own."},
	{"busy", []string{"BUSY", "UNKILLABLE"},
		"Find out whose script it is (its log, SLOWLOG GET), and end it: SCRIPT KILL."},
	{"replica", []string{"MASTERDOWN"},
		"Name the primary instead, or make this a server of its own: REPLICAOF NO ONE, after which it is out for MaxTTL."},
}

// Failure says what it means that nothing could be read of a server, and what to do. Fit is
// the error in words that are fit for people.
func Failure(err, fit error) node.Finding {
	text := strings.TrimPrefix(fit.Error(), node.ErrMisconfigured.Error()+": ")
	severity := node.Warning
	if errors.Is(fit, node.ErrMisconfigured) {
		severity = node.Error
	}
	found := func(check, reason, advice string) node.Finding {
		return node.Finding{Check: check, Severity: severity, Reason: reason, Advice: advice}
	}
	sentence := upper(text) + "."
	if reply, ok := resp.IsError(err); ok {
		for _, r := range refusals {
			for _, said := range r.said {
				if strings.HasPrefix(reply.Error(), said) {
					return found(r.check, sentence, r.advice)
				}
			}
		}
	}
	if severity == node.Warning && redirected(err) { // else the URL is not that of a cluster
		return found("cluster", sentence, "Wait some seconds: there may be an election. If that does not help, look at CLUSTER NODES of a member: one that is up must have the slot, and no slot may be on its way to another member.")
	}
	var silence Silence
	var name *net.DNSError
	switch {
	case errors.As(err, &silence) && silence.Connected:
		return found("hangs", sentence[:len(sentence)-1]+
			": its process is stopped or busy with something long, or its machine is.",
			"On its machine, look at the process: ps -o pid,stat,cmd -C valkey-server,redis-server. State T is stopped (kill -CONT), D waits for the disk; otherwise SLOWLOG GET. If nothing helps, restart it.")
	case errors.As(err, &silence):
		return found("unreachable", sentence,
			"Is its machine up, and the address right? If so, a firewall on the way drops the packets.")
	case errors.As(err, &name):
		return found("address", sentence, "Correct the host in this node's URL, or the name service.")
	case errors.Is(err, syscall.ECONNREFUSED):
		return found("down", "Nothing listens at this address ("+text+").",
			"Start the server. If it runs, compare its port and bind with this node's URL.")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return found("unreachable", sentence, "Is its machine up? Look at the route to it.")
	case errors.Is(err, os.ErrNotExist):
		return found("down", "There is no such socket ("+text+").",
			"Start the server, or compare its unixsocket with this node's URL.")
	case errors.Is(err, os.ErrPermission):
		return found("socket", sentence, "Let this user write to the socket: unixsocketperm, and the folder's permissions.")
	case severity == node.Error:
		return found("misconfigured", sentence, "Change it: waiting does not help.")
	}
	return found("fails", sentence, "Look at the server's log.")
}

// redirected reports whether a member of a cluster says that it does not serve the slot.
func redirected(err error) bool { return new(command.Keys).InCluster().Redirected(err) }

// upper makes a sentence of an error.
func upper(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
