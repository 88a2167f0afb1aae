package examine

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// Server is what was read of a server, and how it was reached.
type Server struct {
	command.Looked
	Reached Reached
	MaxTTL  time.Duration // as in node.Look
	Now     time.Time     // on the server's clock

	Allowed    command.Allowed
	CannotTell error // what the user may do, nil if it is known

	Close *Close // nil if only a quick look was taken
}

// Close is what a closer look has found.
type Close struct {
	Notify  error            // why the client cannot be notified, nil if it can
	Account *command.Account // of the user, nil if it may not ask
	Default *command.Account // of the default user, likewise
	Entries []command.Entry
	Damage  command.Damage
}

// Unusable returns why the server cannot be a node at present, or nil. The error matches
// node.ErrMisconfigured if waiting does not help.
func (s Server) Unusable() error {
	p := s.Allowed
	switch {
	case s.Refused != nil:
		return s.Refused
	case len(p.Disabled) > 0:
		return engine.Misconfiguredf("the server does not have a command that a node needs: %s",
			strings.Join(p.Disabled, ", "))
	case len(p.Missing) > 0:
		return engine.Misconfiguredf("the server's ACL denies this user what a node needs: %s", strings.Join(p.Missing, " "))
	case s.Unreadable != nil:
		return s.Unreadable
	case p.Refuses != nil:
		return p.Refuses
	case s.Reached.Witness.Judge(s.seen()) == admission.Missing:
		return fmt.Errorf("it has %d of the %d replicas that must have what it promises", s.Replicas.InStep,
			s.Reached.Witness.Needs(s.seen()))
	}
	return nil
}

// Reached is how a client came to a server.
type Reached struct {
	Address  string // of the server, without a port; empty for a unix socket
	TLS      bool
	User     string
	Password bool // the client has one
	Witness  admission.Witness
}

// near reports how far a connection goes.
func (r Reached) near() (loopback, private bool) {
	ip, err := netip.ParseAddr(r.Address)
	if err != nil { // a unix socket
		return true, true
	}
	ip = ip.Unmap()
	return ip.IsLoopback(), ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
}

func (s Server) product() string {
	if s.Info["valkey_version"] != "" || s.Info["server_name"] == "valkey" {
		return productValkey
	}
	return productRedis
}

// version returns the product's own version. Valkey has in redis_version what it is
// compatible with.
func (s Server) version() string {
	return cmp.Or(s.Info["valkey_version"], s.Info["redis_version"])
}

// setting returns a setting, from CONFIG or else from INFO, where some are.
func (s Server) setting(name string) (value string, known bool) {
	if value, known = s.Settings[name]; known {
		return value, true
	}
	field := map[string]string{"maxmemory": "maxmemory", "maxmemory-policy": "maxmemory_policy",
		"maxclients": "maxclients"}[name]
	value, known = s.Info[field]
	return value, known
}
