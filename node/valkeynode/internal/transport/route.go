package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// route is the way to the member of a cluster that owns a node's slot. Any member tells which one
// that is: it answers a command about a key of the slot with MOVED and an address, and executes
// nothing. A route asks no server itself. It chooses the address of the next connection by what
// was said on those before. It is safe for concurrent use; a nil route leads nowhere else.
type route struct {
	seeds []string // of the URL

	mu      sync.Mutex
	known   []string // other members, by CLUSTER NODES
	tried   int      // of the seeds and the members, counted round
	at      string   // the newest address that was given out
	target  string   // what to try next: the owner, as far as is known
	leave   bool     // the newest connection leads to a member that does not serve the slot
	settled bool     // the newest connection leads to the owner
	rounds  uint64   // in which no address could be connected to
	vain    int      // looks since one has found the owner
	rest    time.Time
	last    error // of the last look, until rest
}

// next returns the address for the next connection, "" if all were tried in this round. An owner
// whose connection was lost is tried once more, then all members in turn.
func (r *route) next(tried ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append(slices.Clip(r.seeds), r.known...)
	first := r.target
	if first == "" && r.settled && !r.leave {
		first = r.at
	}
	r.target, r.leave, r.settled = "", false, false
	if first != "" && !slices.Contains(tried, first) {
		r.at = first
		return first
	}
	for range all {
		address := all[r.tried%len(all)]
		r.tried++
		if !slices.Contains(tried, address) {
			r.at = address
			return address
		}
	}
	return ""
}

// dial connects to the first address that can be connected to. If none can, an error says so that
// waiting does not mend, if there is one.
func (r *route) dial(ctx context.Context, connect func(address string) (net.Conn, error)) (net.Conn, error) {
	var tried []string
	var wrong, last error
	for ctx.Err() == nil {
		address := r.next(tried...)
		if address == "" {
			break
		}
		conn, err := connect(address)
		if err == nil {
			return conn, nil
		}
		tried, last = append(tried, address), err
		var untrusted *tls.CertificateVerificationError
		if wrong == nil && (errors.Is(err, node.ErrMisconfigured) || errors.As(err, &untrusted)) {
			wrong = err
		}
	}
	r.mu.Lock()
	r.rounds++
	r.mu.Unlock()
	return nil, cmp.Or(wrong, last, ctx.Err())
}

// fruitless counts the rounds in which no address could be connected to.
func (r *route) fruitless() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rounds
}

// others returns the seeds without the address that was given out last, if there are several.
func (r *route) others() (seeds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, address := range r.seeds {
		if address != r.at && len(r.seeds) > 1 {
			seeds = append(seeds, address)
		}
	}
	return seeds
}

// abandon has the newest connection given up.
func (r *route) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target, r.leave, r.settled = "", true, false
}

// Between looks at a cluster that find no owner, no server is asked for a while.
const (
	shortestRest = 50 * time.Millisecond
	longestRest  = 800 * time.Millisecond
)

// rests returns why no owner was found, until it is time to look again.
func (r *route) rests(now time.Time) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.rest) {
		return r.last
	}
	return nil
}

// inVain ends a look that has found no owner. It returns what the servers said, or else how it
// failed.
func (r *route) inVain(said, err error, now time.Time) error {
	if r == nil || errors.Is(err, engine.ErrClosed) {
		return err
	}
	if said != nil && !errors.Is(err, node.ErrMisconfigured) {
		err = said
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest, r.last = now.Add(min(shortestRest<<min(r.vain, 10), longestRest)), err
	r.vain++
	return err
}

// graver returns what says more of a slot that was not found: that it is not served, or else the
// last word of a server.
func graver(said, err error) error {
	reply, refused := resp.IsError(err)
	if before, _ := resp.IsError(said); !refused ||
		isDown(before) && strings.HasPrefix(reply.Error(), "MOVED") {
		return said
	}
	return err
}

func isDown(reply resp.Error) bool { return strings.HasPrefix(reply.Error(), "CLUSTERDOWN") }

// settle tells that the newest connection leads to the owner.
func (r *route) settle() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = !r.leave
	r.vain, r.rest, r.last = 0, time.Time{}, nil
}

// leads reports whether the newest connection may lead to the owner.
func (r *route) leads() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.leave
}

// heed takes note of a reply that tells where the slot is.
func (r *route) heed(command resp.Command, reply *resp.Reply) {
	if r == nil {
		return
	}
	if command[0] == "CLUSTER" {
		if nodes, err := reply.ToString(); err == nil {
			r.learn(nodes)
		}
		return
	}
	said, refused := resp.IsError(reply.Err())
	if !refused {
		return
	}
	code, rest, _ := strings.Cut(said.Error(), " ")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch code {
	case "MOVED":
		_, to, _ := strings.Cut(rest, " ")
		if to = redirected(to, r.at); to != r.at { // else it is of an older connection
			r.target, r.leave = to, true
		}
	case "CLUSTERDOWN":
		// A member that has lost the others says so too. Others may know better.
		r.target, r.leave = "", true
	}
}

// redirected returns the address of a redirection, "" if it says none. An empty host is that of
// the server that said so. An IPv6 address has no brackets there.
func redirected(to, from string) string {
	i := strings.LastIndexByte(to, ':')
	if i < 0 {
		return ""
	}
	host, port := strings.Trim(to[:i], "[]"), to[i+1:]
	switch host {
	case "":
		host, _, _ = net.SplitHostPort(from)
	case "?":
		return ""
	}
	return net.JoinHostPort(host, port)
}

// learn takes the members that a cluster lists, for the day on which no seed answers.
func (r *route) learn(nodes string) {
	var known []string
	for line := range strings.Lines(nodes) {
		words := strings.Fields(line)
		if len(words) < 8 || strings.Contains(words[2], "noaddr") || strings.Contains(words[2], "handshake") {
			continue
		}
		// ip:port@bus, and after a comma the host's name if it has one
		address, name, _ := strings.Cut(words[1], ",")
		address, _, _ = strings.Cut(address, "@")
		name, _, _ = strings.Cut(name, ",")
		if i := strings.LastIndexByte(address, ':'); i >= 0 && name != "" {
			address = name + address[i:]
		}
		if address = redirected(address, ""); address != "" && !strings.HasPrefix(address, ":") &&
			!slices.Contains(r.seeds, address) && len(known) < mostKnown {
			known = append(known, address)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
}

// mostKnown bounds the members that are remembered.
const mostKnown = 32
