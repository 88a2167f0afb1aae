package transport

import (
	"net"
	"slices"
	"strings"
	"sync"

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
}

// candidates is how many addresses there are to try.
func (r *route) candidates() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return 1 + len(r.seeds) + len(r.known)
}

// next returns the address for the next connection. An owner whose connection was lost is tried
// once more, then all members in turn.
func (r *route) next() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.target != "":
		r.at, r.target = r.target, ""
	case r.settled && !r.leave:
	default:
		all := append(slices.Clip(r.seeds), r.known...)
		r.at = all[r.tried%len(all)]
		r.tried++
	}
	r.leave, r.settled = false, false
	return r.at
}

// settle tells that the newest connection leads to the owner.
func (r *route) settle() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = !r.leave
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
