package goredisnode

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/redis/go-redis/v9"
)

// cluster carries commands to the member of a cluster that has a node's slot. The cluster client
// says which one that is, and nothing is sent by the cluster client itself. It would follow MOVED
// and ASK, repeat commands, and spread a batch over connections, so that a WAIT says nothing of the
// requests before it. A member's own client does none of this: MOVED is an answer like others.
//
// All goes to one member until it is looked at again (Identify). So the cluster client's own
// reloading changes nothing for requests that are under way.
type cluster struct {
	*link
	client *redis.ClusterClient
	key    string // any of the slot

	mu sync.Mutex
	at member
}

// member is the one that was chosen.
type member struct {
	client *redis.Client // nil: none yet
	again  bool          // it is chosen anew before the next command
	left   context.Context
	leave  context.CancelCauseFunc // when another one is chosen
}

var errLeft = errors.New("another member of the cluster has the slot")

// newCluster returns the way to the slot of a key.
func newCluster(client *redis.ClusterClient, key string) *cluster {
	c := &cluster{client: client, key: key}
	c.link = &link{lead: c.lead, explain: c.explain, Lifetime: engine.NewLifetime()}
	return c
}

// lead returns the member's client, and what ends when another member is chosen.
func (c *cluster) lead(ctx context.Context) (*redis.Client, context.Context, error) {
	c.mu.Lock()
	at := c.at
	c.mu.Unlock()
	if at.client != nil && !at.again {
		return at.client, at.left, nil
	}
	own, err := c.client.MasterForKey(ctx, c.key)
	if err == nil {
		err = check(own.Options()) // ClusterOptions.NewClient may have changed some
	}
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at.again = false
	if c.at.client != own {
		if c.at.client != nil {
			c.at.leave(errLeft)
		}
		c.at.client = own
		c.at.left, c.at.leave = context.WithCancelCause(c.Life())
	}
	return own, c.at.left, nil
}

// doubt has the member be chosen anew, by what the cluster says now.
func (c *cluster) doubt() {
	c.mu.Lock()
	c.at.again = true
	c.mu.Unlock()
	c.client.ReloadState(context.Background()) // in the background
}

// explain tells a member's client that the cluster client has closed, since the member has left
// the cluster, from one that the program has closed.
func (c *cluster) explain(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		c.mu.Lock()
		was := c.at.client
		c.at.again = true
		c.mu.Unlock()
		if now, _, other := c.lead(c.Life()); other == nil && now != was {
			return node.NotSent(errLeft)
		}
	}
	return errorOf(err)
}

const (
	// Looks for the slot's owner, and the pause in between: the cluster client asks the members at
	// most every 200 ms.
	mostLooks = 8
	lookPause = 100 * time.Millisecond
	// For how long the servers that the client was made with are asked.
	seedTimeout = time.Second
)

// Identify implements resp.Link.
func (c *cluster) Identify(ctx context.Context, and resp.Command,
	accept func(info string, other resp.Reply, dial uint64) error) error {
	var said error
	for looks := 0; ; looks++ {
		c.doubt()
		dial := c.Dial()
		replies, err := c.DoMulti(ctx, resp.Command{"INFO"}, and)
		if err != nil {
			if said == nil || errors.Is(err, engine.ErrClosed) {
				said = err
			}
			return said
		}
		info, err := replies[0].ToString()
		if err == nil {
			// A key of a slot that is another member's is refused.
			if _, refused := resp.IsError(replies[1].Err()); !refused {
				return accept(info, replies[1], dial)
			}
			err = replies[1].Err()
		}
		if _, refused := resp.IsError(err); refused || said == nil {
			said = err
		}
		if looks == mostLooks || errors.Is(err, node.ErrMisconfigured) {
			return said
		}
		engine.Pause(ctx, lookPause)
	}
}

// Remote implements resp.Link.
func (c *cluster) Remote() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.client == nil {
		return ""
	}
	return remote(c.at.client.Options())
}

// AskSeeds asks each server that the client was made with, as package admission has it.
func (c *cluster) AskSeeds(ctx context.Context, command resp.Command) map[string]resp.Reply {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	replies := make(map[string]resp.Reply)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, address := range c.client.Options().Addrs {
		all.Go(func() {
			client := memberOf(c.client.Options(), address)
			defer client.Close()
			one := &link{lead: only(client), explain: errorOf, Lifetime: c.Lifetime}
			if reply, err := one.Do(ctx, command); err == nil {
				mu.Lock()
				defer mu.Unlock()
				replies[address] = reply
			}
		})
	}
	all.Wait()
	return replies
}

// Leave says that the connection of this number leads to no server of the node.
func (c *cluster) Leave(uint64) { c.doubt() }

// memberOf returns a client of one member.
func memberOf(opt *redis.ClusterOptions, address string) *redis.Client {
	return opt.NewClient(memberOptions(opt, address))
}

// memberOptions are what the cluster client gives a member's client.
func memberOptions(opt *redis.ClusterOptions, address string) *redis.Options {
	return &redis.Options{
		Addr: address, ClientName: opt.ClientName, Dialer: opt.Dialer, OnConnect: opt.OnConnect, Protocol: opt.Protocol,
		Username: opt.Username, Password: opt.Password, CredentialsProvider: opt.CredentialsProvider,
		CredentialsProviderContext:   opt.CredentialsProviderContext,
		StreamingCredentialsProvider: opt.StreamingCredentialsProvider,
		MaxRetries:                   opt.MaxRetries, DialTimeout: opt.DialTimeout, DialerRetries: opt.DialerRetries,
		ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout, ContextTimeoutEnabled: opt.ContextTimeoutEnabled,
		TLSConfig: opt.TLSConfig,
		PoolSize:  1, DisableIdentity: opt.DisableIdentity, MaintNotificationsConfig: opt.MaintNotificationsConfig,
	}
}

// checkCluster returns why a cluster client would break a promise, or nil.
func checkCluster(client *redis.ClusterClient) error {
	opt := client.Options()
	switch {
	case opt.ClusterSlots != nil:
		return engine.Invalidf("go-redis: a function says which server has which slot (ClusterOptions.ClusterSlots), as NewFailoverClusterClient has it: give a client of redis.NewFailoverClient, or of a real cluster without that function")
	case opt.ReadOnly:
		return engine.Invalidf("go-redis: the client may read from replicas: set none of ClusterOptions.ReadOnly, RouteByLatency and RouteRandomly")
	case len(opt.Addrs) == 0:
		return engine.Invalidf("go-redis: ClusterOptions.Addrs is empty")
	}
	one := memberOf(opt, opt.Addrs[0])
	defer one.Close()
	return check(one.Options())
}

// defaultTag is that of valkeynode's URLs.
const defaultTag = "fenlock"

// nameOfCluster returns how people call a cluster's node, and how its group does: as valkeynode
// calls it by a URL with the same hosts.
func nameOfCluster(opt *redis.ClusterOptions, tag string, given *string) (name, member string, err error) {
	scheme := "redis-cluster://"
	if opt.TLSConfig != nil {
		scheme = "rediss-cluster://"
	}
	all := slices.Clone(opt.Addrs)
	for _, address := range all {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return "", "", engine.Invalidf("go-redis: ClusterOptions.Addrs: %.60q is not host:port", address)
		}
	}
	slices.Sort(all)
	member = strings.Join(all, ",") + "/" + tag
	name = scheme + member
	if given != nil {
		member = *given
	}
	return name, member, nil
}
