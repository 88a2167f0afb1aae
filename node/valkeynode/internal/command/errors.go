package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/fenlock/fenlock/node"
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
	{"NOPERM", true, "the server's ACL denies a command, a key or a channel to this user (docs/valkey.md lists what is needed)"},
	// The same from within a script: Valkey's words, and Redis's.
	{"ACL failure in script", true, "the server's ACL denies a command, a key or a channel to this user (docs/valkey.md lists what is needed)"},
	{"The user executing the script", true, "the server's ACL denies a command, a key or a channel to this user (docs/valkey.md lists what is needed)"},
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

// Errors makes errors fit for people.
type Errors struct {
	Name   string // of the node
	Secret string // the password, to keep it out of them
}

// Fail makes an error fit for leaving the node: readable, and with the node's name.
func (e Errors) Fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", e.Name, e.Describe(err))
}

// Describe says what an error of the server or of the client library means, without
// the password.
func (e Errors) Describe(err error) error { return redact(describe(err), e.Secret) }

// redact takes a password out of what a server said: old servers and proxies that
// do not know a command repeat its arguments, and HELLO has the password there.
func redact(err error, secret string) error {
	if secret == "" || err == nil || !strings.Contains(err.Error(), secret) {
		return err
	}
	// These are not the server's words, and are asked about with errors.Is.
	for _, own := range []error{node.ErrInvalid, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, own) {
			return err
		}
	}
	text := strings.ReplaceAll(err.Error(), secret, "(the password)")
	if errors.Is(err, node.ErrMisconfigured) {
		prefix := node.ErrMisconfigured.Error() + ": "
		return Misconfigured("%s", strings.TrimPrefix(text, prefix))
	}
	return errors.New(text)
}

// exec returns the results of a transaction. If the server refused to queue one
// of its commands, the error is that one, which says more than EXECABORT.
func exec(replies []valkey.ValkeyResult) ([]valkey.ValkeyMessage, error) {
	results, err := replies[len(replies)-1].ToArray()
	if err == nil {
		return results, nil
	}
	for _, r := range replies[:len(replies)-1] {
		if queued := r.Error(); queued != nil {
			return nil, queued
		}
	}
	return nil, err
}

// describe makes an error of the client library readable.
func describe(err error) error {
	if err == nil {
		return nil
	}
	reply, ok := valkey.IsValkeyErr(err)
	if !ok {
		return describeTLS(err)
	}
	text := reply.Error()
	for _, a := range advice {
		// The code is the first word, or in the middle where a script failed:
		// "ERR Error running script ... -OOM command not allowed".
		if !strings.HasPrefix(text, a.code) && !strings.Contains(text, "-"+a.code+" ") && !strings.Contains(text, ": "+a.code+" ") {
			continue
		}
		if a.permanent {
			return Misconfigured("%s (%s)", a.text, text)
		}
		return fmt.Errorf("%s (%s)", a.text, text)
	}
	if strings.Contains(text, "invalid password") || strings.Contains(text, "no password is set") {
		return Misconfigured("the user or the password is wrong (%s)", text)
	}
	if strings.Contains(text, "DB index is out of range") {
		return Misconfigured("the server does not have this database number (%s)", text)
	}
	return err
}

// describeTLS marks the TLS errors that waiting does not mend.
func describeTLS(err error) error {
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &untrusted):
		return Misconfigured("the server's certificate is not trusted; the URL's parameter ca names the file of its authority (%v)", err)
	case errors.As(err, &noTLS):
		return Misconfigured("the server does not speak TLS on this port (%v)", err)
	case errors.As(err, &alert) && strings.Contains(err.Error(), "certificate"):
		return Misconfigured("the server refuses the client's certificate, or wants one; the URL's parameters are cert and key (%v)", err)
	}
	return err
}

// isNoScript reports whether the server does not have the script: nothing was
// executed.
func isNoScript(err error) bool {
	reply, ok := valkey.IsValkeyErr(err)
	return ok && reply.IsNoScript()
}

// Misconfigured returns an error that waiting does not mend.
func Misconfigured(format string, args ...any) error {
	return fmt.Errorf("%w: %s", node.ErrMisconfigured, fmt.Sprintf(format, args...))
}

// Invalid returns an error about an argument.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", node.ErrInvalid, fmt.Sprintf(format, args...))
}
