package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/fenlock/fenlock/node/secretfile"
)

// sentinels know which server is the primary of a name at present. They are asked for each
// connection. A connection that was made before a failover ends: its server is a replica then, is
// silent, or lacks its replicas (Conn.Renew).
//
// The client library follows sentinels too. But it asks them before it returns a client, and keeps
// to the first of them that answers, which may be behind.
type sentinels struct {
	addresses []string
	master    string  // what they call it
	way       *Server // to any of them
	secrets   *resp.Secrets
}

// sentinelTimeout is for how long they are asked.
const sentinelTimeout = time.Second

// heard is what a sentinel says.
type heard struct {
	sentinel, primary string
	err               error
}

var errUnknown = errors.New("it knows no primary of that name")

// locate returns the address of the primary that more than half of the sentinels have. Fewer may be
// cut off from the others, or behind: they lead to the old primary beside the one that replaced it.
func (s *sentinels) locate(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sentinelTimeout)
	defer cancel()
	answers := make(chan heard, len(s.addresses))
	for _, address := range s.addresses {
		go func() {
			primary, err := s.ask(ctx, address)
			answers <- heard{address, primary, err}
		}()
	}
	var all []heard
	for range s.addresses {
		all = append(all, <-answers)
		if primary, votes := elected(all); votes > len(s.addresses)/2 {
			return primary, nil
		}
	}
	return "", s.why(all)
}

// elected returns the address that most answers have, and how many.
func elected(all []heard) (primary string, votes int) {
	count := make(map[string]int)
	for _, a := range all {
		if a.err != nil {
			continue
		}
		if count[a.primary]++; count[a.primary] > votes {
			primary, votes = a.primary, count[a.primary]
		}
	}
	return primary, votes
}

// why says why none of them has an answer. What waiting does not mend is said first.
func (s *sentinels) why(all []heard) error {
	slices.SortFunc(all, func(a, b heard) int { return cmp.Compare(a.sentinel, b.sentinel) })
	var unknown []string
	said := ""
	for _, a := range all {
		if a.err == nil {
			a.err = errors.New("the primary is " + a.primary)
		}
		if errors.Is(a.err, errUnknown) {
			unknown = append(unknown, a.sentinel)
		}
		said += "; " + a.sentinel + ": " + a.err.Error()
	}
	if _, votes := elected(all); votes > 0 {
		return fmt.Errorf("more than half of the %d sentinels have to name one primary: %s", len(all), said[2:])
	}
	if unknown != nil {
		return engine.Misconfiguredf("no primary is called %.60q at the sentinels %s: the name is that of their line \"sentinel monitor\"",
			s.master, strings.Join(unknown, ", "))
	}
	for _, a := range all {
		var untrusted *tls.CertificateVerificationError
		if errors.Is(a.err, node.ErrMisconfigured) || errors.As(a.err, &untrusted) {
			return fmt.Errorf("the sentinel %s: %w", a.sentinel, a.err)
		}
	}
	return fmt.Errorf("no sentinel answers: %s", said[2:])
}

// ask asks one sentinel, on a connection of its own.
func (s *sentinels) ask(ctx context.Context, address string) (string, error) {
	reply, err := s.way.askOnce(ctx, address, s.secrets, resp.Command{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.master})
	var at []string
	if err == nil {
		at, err = reply.AsStrSlice()
	}
	switch {
	case errors.Is(err, resp.ErrNil):
		return "", errUnknown
	case err != nil:
		return "", sentinelError(err, s.way.Credentials != nil)
	case len(at) != 2 || !isAddress(at[0], at[1]):
		return "", errors.New("its answer is no address")
	}
	return net.JoinHostPort(at[0], at[1]), nil
}

// isAddress reports whether a sentinel's words can be shown and dialled.
func isAddress(host, port string) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	odd := strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' })
	return err == nil && number > 0 && host != "" && len(host) < 256 && !odd
}

// sentinelError says what an error means that a sentinel has sent, or a server that is none.
func sentinelError(err error, password bool) error {
	text := err.Error()
	switch {
	case strings.Contains(strings.ToLower(text), "unknown command"):
		return engine.Misconfiguredf("this is no sentinel: for a server, the URL's scheme is valkey:// or redis://")
	case strings.Contains(text, "NOAUTH") && !password:
		return engine.Misconfiguredf("the sentinel wants a password: the URL's parameter sentinelpasswordfile")
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "NOAUTH"), strings.Contains(text, "invalid password"),
		strings.Contains(text, "without any password configured"):
		return engine.Misconfiguredf("the sentinel refuses the password of the URL's parameter sentinelpasswordfile, or the user of sentineluser")
	case strings.Contains(text, "NOPERM"):
		return engine.Misconfiguredf("the sentinel's ACL does not let this user ask: it needs +sentinel|get-master-addr-by-name")
	}
	return err
}

// credentialsOf returns a function that reads a password's file, nil without a file.
func credentialsOf(user, file string) func(context.Context) (string, string, error) {
	if file == "" {
		return nil
	}
	return func(context.Context) (string, string, error) {
		password, err := secretfile.ReadPassword(file)
		if err != nil {
			return "", "", engine.Misconfiguredf("sentinelpasswordfile: %w", err)
		}
		return user, password, nil
	}
}

// errFailover is what a look at a server says that the sentinels lead to and that is a replica.
var errFailover = errors.New("the sentinels lead to a replica: a failover is under way, or has just been")
