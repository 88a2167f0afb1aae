package valkeynode

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fenlock/fenlock"
	"github.com/valkey-io/valkey-go"
)

// advice says what an error of the server means for whoever reads it, by the
// error's first word. Permanent ones do not go away by waiting.
var advice = []struct {
	code      string
	permanent bool
	text      string
}{
	{"WRONGPASS", true, "the user or the password is wrong"},
	{"NOAUTH", true, "the server wants a password"},
	{"NOPERM", true, "the server's ACL denies a command or a key to this user (docs/valkey.md lists what is needed)"},
	{"READONLY", true, "this is a read-only replica: use its primary"},
	{"MOVED", true, "this is part of a cluster: a node must be an independent primary"},
	{"CLUSTERDOWN", true, "this is part of a cluster: a node must be an independent primary"},
	{"WRONGTYPE", true, "the key of this lock holds something else than a lock: use another name or a prefix"},
	{"MISCONF", false, "the server refuses writes because it cannot save to its disk"},
	{"OOM", false, "the server has no memory left (maxmemory)"},
	{"BUSY", false, "the server is running somebody's long script"},
	{"LOADING", false, "the server is loading its data"},
	{"MASTERDOWN", true, "this is a replica that has lost its primary: use a primary"},
	{"NOREPLICAS", false, "the server refuses writes while it has too few replicas (min-replicas-to-write)"},
	{"UNKILLABLE", false, "the server is running somebody's long script"},
	{"EXECABORT", false, "the server refused a transaction"},
}

// describe makes an error of the client library readable. It names no password:
// the server's errors do not repeat one, and the library's name addresses only.
func describe(err error) error {
	if err == nil {
		return nil
	}
	reply, ok := valkey.IsValkeyErr(err)
	if !ok {
		return err
	}
	text := reply.Error()
	for _, a := range advice {
		// The code is the first word, or in the middle where a script failed:
		// "ERR Error running script ... -OOM command not allowed".
		if !strings.HasPrefix(text, a.code) && !strings.Contains(text, "-"+a.code+" ") && !strings.Contains(text, ": "+a.code+" ") {
			continue
		}
		if a.permanent {
			return misconfigured("%s (%s)", a.text, text)
		}
		return fmt.Errorf("%s (%s)", a.text, text)
	}
	if strings.Contains(text, "invalid password") || strings.Contains(text, "no password is set") {
		return misconfigured("the user or the password is wrong (%s)", text)
	}
	if strings.Contains(text, "DB index is out of range") {
		return misconfigured("the server does not have this database number (%s)", text)
	}
	return err
}

// isNoScript reports whether the server does not have the script: nothing was executed.
func isNoScript(err error) bool {
	reply, ok := valkey.IsValkeyErr(err)
	return ok && reply.IsNoScript()
}

// misconfigured returns an error that waiting does not mend.
func misconfigured(format string, args ...any) error {
	return fmt.Errorf("%w: %s", fenlock.ErrMisconfigured, fmt.Sprintf(format, args...))
}

var errClosed = errors.New("the node is closed")
