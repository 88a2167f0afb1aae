package natsnode

import (
	"cmp"
	"crypto/tls"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/secretfile"
)

const (
	dialTimeout = 2 * time.Second // for each host, and as much for what it says first
	// A server that stands still is left after three seconds.
	pingInterval = time.Second
	mostPings    = 2
)

// place is what a node's URL says.
type place struct {
	url    *engine.URL
	hosts  []string // host:port
	bucket string
	// replicas is how many servers have the bucket, 0 if the URL does not say it. synced is the
	// operator's word for sync_interval.
	replicas int
	synced   bool
	name     string // for people: without the password
	member   string // what all clients of the group call it
}

var form = engine.Form{Engine: "natsnode", Example: "nats://user:password@host:4222/BUCKET", Schemes: []string{"nats"},
	Port: "4222", Several: true}

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,200}$`)

// parseURL reads a node's URL.
func parseURL(raw string) (*place, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	p := &place{url: u, bucket: strings.Trim(u.Path, "/"), synced: u.Get("sync_interval") == "always"}
	for _, host := range u.Hosts {
		p.hosts = append(p.hosts, strings.ToLower(host))
	}
	if n := u.Get("replicas"); n != "" {
		p.replicas = int(n[0] - '0')
	}
	switch {
	case !bucketName.MatchString(p.bucket):
		return nil, u.Invalidf("there is no bucket, or one that cannot be (letters, digits, - and _): the form is %s",
			form.Example)
	case u.User != "" && !u.HasPassword():
		return nil, u.Invalidf("there is a user and no password: a token is written nats://:token@host, " +
			"or in a passwordfile without a user")
	case u.Get("creds") != "" && (u.User != "" || u.HasPassword()):
		return nil, u.Invalidf("there are creds and a password: one is enough")
	}
	if file := u.Get("creds"); file != "" {
		if _, err := secretfile.Read(file); err != nil {
			return nil, u.Invalidf("creds: %v", err)
		}
	}
	p.name = "nats://" + strings.Join(slices.Sorted(slices.Values(p.hosts)), ",") + "/" + p.bucket
	p.member = cmp.Or(u.Name, p.name)
	return p, nil
}

// options returns how to connect, by the files as they are now.
func (p *place) options() ([]nats.Option, error) {
	password, err := p.url.Password()
	if err != nil {
		return nil, err
	}
	all := []nats.Option{nats.Name("fenlock"), nats.CustomInboxPrefix(p.own("inbox")), nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(mostPings),
		// A connection that was lost is made anew by the next request: nothing is sent later, or
		// again.
		nats.NoReconnect(), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
		nats.PermissionErrOnSubscribe(true)}
	switch creds := p.url.Get("creds"); {
	case creds != "":
		text, err := secretfile.Read(creds)
		if err != nil {
			return nil, engine.Misconfiguredf("creds: %w", err)
		}
		all = append(all, nats.UserCredentialBytes(text))
	case p.url.User != "":
		all = append(all, nats.UserInfo(p.url.User, password))
	case password != "":
		all = append(all, nats.Token(password))
	}
	if p.url.TLS {
		var config *tls.Config
		if config, err = p.url.TLSConfig(); err != nil {
			return nil, err
		}
		config.ServerName = p.url.Get("servername") // or of the host that is dialled
		all = append(all, nats.Secure(config))
	}
	return all, nil
}

// own returns a subject that only the clients of this bucket use.
func (p *place) own(rest string) string { return "fenlock." + p.bucket + "." + rest }

// stream is the name of the bucket's stream.
func (p *place) stream() string { return "KV_" + p.bucket }

// subject is what the records are stored under, and all of them with ">".
func (p *place) subject(key string) string { return "$KV." + p.bucket + "." + key }
