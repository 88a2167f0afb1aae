package command

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// advice says what an error of the server means for its reader, by the error's first word, or by a
// phrase in it. Permanent ones do not go away by waiting.
var advice = []struct {
	said      []string
	permanent bool
	text      string
}{
	{[]string{"DENIED"}, true, "the server answers to its own machine only (protected-mode): give it a password"},
	{[]string{"WRONGPASS", "invalid password", "no password is set"}, true, "the user or the password is wrong"},
	{[]string{"NOAUTH"}, true, "the server wants a password"},
	// The phrases are the same from within a script: Valkey's words, and Redis's.
	{[]string{"NOPERM", "ACL failure in script", "The user executing the script"}, true,
		"the server's ACL denies a command, a key or a channel to this user (fenlock acl prints what is needed)"},
	{[]string{"READONLY"}, true, "this is a read-only replica: use its primary"},
	{[]string{"MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN"}, true,
		"this is part of a cluster: the URL of a cluster is valkey-cluster://host:port,host:port/tag"},
	{[]string{"WRONGTYPE"}, true, "the key of this lock holds something else than a lock: use another name or a prefix"},
	{[]string{"MISCONF"}, false, "the server refuses writes because it cannot save to its disk"},
	{[]string{"OOM"}, false, "the server has no memory left (maxmemory)"},
	{[]string{"BUSY", "UNKILLABLE"}, false, "the server is running a long script of another client"},
	{[]string{"LOADING"}, false, "the server is loading its data"},
	{[]string{"MASTERDOWN"}, true, "this is a replica that has lost its primary: use a primary"},
	{[]string{"NOREPLICAS"}, false, "the server refuses writes while it has too few replicas (min-replicas-to-write)"},
	{[]string{"EXECABORT"}, false, "the server refused a transaction"},
	{[]string{"DB index is out of range"}, true, "the server does not have this database number"},
}

// Errors makes errors fit for people.
type Errors struct {
	Name    string        // of the node
	Secrets *resp.Secrets // to keep them out; nil: there are none
	Cluster bool          // the node is one
}

// Fail makes an error fit for leaving the node: readable, and with the node's name.
func (e Errors) Fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", e.Name, e.Describe(err))
}

// Describe says what an error of the server or of the client library means, without the password.
// Old servers and proxies that do not know a command repeat its arguments, and HELLO has the
// password there. What a server said is shown whole or not at all; our own words are not searched
// for the password, whatever it is.
func (e Errors) Describe(err error) error {
	if e.Cluster {
		err = describeRedirection(err)
	}
	err = describe(err)
	var terms *admit.TermsError
	if errors.As(err, &terms) && e.Secrets.In(terms.Recorded.Members) {
		return engine.Misconfiguredf(
			"what is recorded of the group there is not what this client names, and is not shown: it has a password in it")
	}
	var q *quoting
	if errors.As(err, &q) && e.Secrets.In(q.words) {
		return q.plain
	}
	return err
}

// quoting is an error that quotes a server. Plain is the same without that.
type quoting struct {
	error
	plain error
	words string
}

func (q *quoting) Unwrap() error { return q.error }

// quote makes an error of our words and of an error that a server sent.
func quote(plain error, words string) error {
	return &quoting{fmt.Errorf("%w (%s)", plain, words), plain, words}
}

// quoteValue makes an error of our words and of something else that a server sent.
func quoteValue(plain error, words string) error {
	return &quoting{fmt.Errorf("%w (%.60q)", plain, words), plain, words}
}

// exec returns the results of a transaction, one for each command. If the server refused
// to queue one of them, the error is that one, which says more than EXECABORT.
func exec(replies []resp.Reply) ([]resp.Reply, error) {
	results, err := replies[len(replies)-1].ToList()
	commands := len(replies) - 2 // between MULTI and EXEC
	switch {
	case err == nil && len(results) == commands:
		return results, nil
	case err == nil:
		return nil, fmt.Errorf("unexpected reply of %d values to a transaction of %d commands", len(results), commands)
	}
	for _, r := range replies[:len(replies)-1] {
		if queued := r.Err(); queued != nil {
			return nil, queued
		}
	}
	return nil, err
}

// describe makes an error of the client library readable.
func describe(err error) error {
	// The client library quotes what it could not read.
	if number := new(strconv.NumError); errors.As(err, &number) {
		return quoteValue(errors.New("a reply is no number"), number.Num)
	}
	reply, ok := resp.IsError(err)
	if !ok {
		return describeTLS(err)
	}
	text := reply.Error()
	if text == "" { // as a reason, "" would mean that there is none
		return errors.New("the server refused a command without a word")
	}
	// A code is the first word, or in the middle where a script failed:
	// "ERR Error running script ... -OOM command not allowed".
	says := func(said string) bool {
		return strings.HasPrefix(text, said) ||
			strings.Contains(text, "-"+said+" ") || strings.Contains(text, ": "+said+" ") ||
			strings.Contains(said, " ") && strings.Contains(text, said)
	}
	for _, a := range advice {
		if !slices.ContainsFunc(a.said, says) {
			continue
		}
		if a.permanent {
			return quote(engine.Misconfiguredf("%s", a.text), text)
		}
		return quote(errors.New(a.text), text)
	}
	if unknownCommand().MatchString(text) {
		return quote(engine.Misconfiguredf("the server does not have a command that a node needs"), text)
	}
	return &quoting{err, errors.New("the server refused a command; what it says has the password in it"), text}
}

// DescribeGuard says what it means that the record of a guard's tokens cannot be read.
func DescribeGuard(err error, record string) error {
	reply, ok := resp.IsError(err)
	if ok && (strings.HasPrefix(reply.Error(), "WRONGTYPE") || strings.HasPrefix(reply.Error(), "FENLOCK the record")) {
		return engine.Misconfiguredf("the key %.80q, which remembers the largest token, holds something else: nothing is written. Set it to a token that is at least as large as every one before, or delete it if no older holder is left", record)
	}
	return err
}

// unknownCommand is how servers say, to a client or to a script, that a command was
// disabled or renamed.
var unknownCommand = lazily(`(?i)^(ERR )?unknown command|unknown (redis|valkey|server) command called from script`)

// describeTLS marks the TLS errors that waiting does not mend.
func describeTLS(err error) error {
	var otherName x509.HostnameError
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, node.ErrMisconfigured):
		return err
	case errors.As(err, &otherName):
		return engine.Misconfiguredf(
			"the server's certificate is for another name; the URL's parameter servername says which to expect (%v)", err)
	case errors.As(err, &untrusted):
		return engine.Misconfiguredf(
			"the server's certificate is not trusted; the URL's parameter ca names the file of its authority (%v)", err)
	case errors.As(err, &noTLS):
		return engine.Misconfiguredf("the server does not speak TLS on this port (%v)", err)
	case errors.As(err, &alert) && strings.Contains(err.Error(), "certificate"):
		return engine.Misconfiguredf(
			"the server refuses the client's certificate, or wants one; the URL's parameters are cert and key (%v)", err)
	}
	return err
}
