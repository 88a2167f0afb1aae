package goredisnode

import (
	"net"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// accepted returns the client if a node can be made of it, or why not. One of the two is nil.
func accepted(client redis.UniversalClient) (*redis.Client, *redis.ClusterClient, error) {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, nil, errNone
		}
		return c, nil, check(c.Options())
	case *redis.ClusterClient:
		if c == nil {
			return nil, nil, errNone
		}
		return nil, c, checkCluster(c)
	case nil:
		return nil, nil, errNone
	case *redis.Ring:
		return nil, nil, engine.Invalidf("go-redis: this is a ring: it sends each key to one of several servers, and to another one when that fails. Give each server's own *redis.Client, one node each")
	}
	return nil, nil, engine.Invalidf("go-redis: the options of a %T cannot be known: give the *redis.Client", client)
}

var errNone = engine.Invalidf("go-redis: there is no client")

// check returns why a client with these options would break a promise, or nil. They are as
// the client has completed them: -1 is 0 there, and -2 is -1.
func check(opt *redis.Options) error {
	switch maintenance := opt.MaintNotificationsConfig; {
	case opt.MaxRetries != 0:
		return engine.Invalidf("go-redis: the client would send a command up to %d times, so that what was granted may be refused to its own holder: set Options.MaxRetries to -1 (0 is the default, 3)", opt.MaxRetries+1)
	case !opt.ContextTimeoutEnabled:
		return engine.Invalidf(
			"go-redis: the client ignores the deadlines of contexts: set Options.ContextTimeoutEnabled to true")
	case opt.ReadTimeout < 0:
		return engine.Invalidf("go-redis: the client sets no deadline when it reads, so that it ignores those of contexts: Options.ReadTimeout must not be -2")
	case opt.WriteTimeout < 0:
		return engine.Invalidf("go-redis: the client sets no deadline when it writes, so that it ignores those of contexts: Options.WriteTimeout must not be -2")
	case opt.Protocol == 3 && (maintenance == nil || maintenance.Mode != maintnotifications.ModeDisabled):
		return engine.Invalidf("go-redis: the client may be told to move its connections to another server, and to wait longer than it was asked to: set Options.MaintNotificationsConfig to &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}")
	}
	return nil
}

// ofSentinels is the address that go-redis gives a client of sentinels.
const ofSentinels = "FailoverClient"

// nameOf returns how people call the node, and how its group does.
func nameOf(opt *redis.Options, given *string) (name, member string, err error) {
	scheme := "redis://"
	if opt.TLSConfig != nil {
		scheme = "rediss://"
	}
	if given != nil {
		member = *given
	}
	if opt.Addr == ofSentinels {
		if given == nil {
			return "", "", engine.Invalidf("go-redis: a client of sentinels has no address of its own: say by WithName what all clients of the group call this node")
		}
		return scheme + member, member, nil
	}
	address := opt.Addr
	if opt.Network == "unix" {
		scheme = "unix://"
	} else {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" {
			return "", "", engine.Invalidf("go-redis: Options.Addr %.60q is not host:port", address)
		}
		address = net.JoinHostPort(host, port)
	}
	if opt.DB != 0 {
		address += "/" + strconv.Itoa(opt.DB)
	}
	if given == nil {
		member = address
	}
	return scheme + address, member, nil
}

// remote returns the host of an address, if it says which one.
func remote(opt *redis.Options) string {
	host, _, err := net.SplitHostPort(opt.Addr)
	if err != nil || opt.Network == "unix" {
		return ""
	}
	return strings.ToLower(host)
}
