package etcdnode

import (
	"cmp"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
)

var form = engine.Form{Engine: "etcdnode", Example: "etcd://user:password@host1:2379,host2:2379,host3:2379/prefix",
	Schemes: []string{"etcd"}, Secure: []string{"etcds"}, Port: "2379", Several: true}

// address is what a URL says. What comes from files is read anew for each connection.
type address struct {
	*engine.URL
	prefix keys
	name   string // for people
	member string // what clients call the node
}

// parseURL reads a node's URL. No error of it has a part in which a password may be.
func parseURL(raw string) (*address, error) {
	u, err := form.Parse(raw)
	if err != nil {
		return nil, err
	}
	if (u.User != "") != u.HasPassword() {
		return nil, u.Invalidf("there have to be a user and a password, or neither: etcd has no password without a user (etcd://user:password@host, or one in a file, etcd://user@host?passwordfile=/path)")
	}
	path := strings.TrimRight(u.Path, "/")
	called := strings.Join(u.Hosts, ",") + path
	a := &address{URL: u, prefix: DefaultPrefix, name: u.Scheme + "://" + called, member: cmp.Or(u.Name, called)}
	if path != "" {
		a.prefix = keys(path + "/")
	}
	return a, nil
}
