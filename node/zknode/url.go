package zknode

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node/engine"
)

// DefaultRoot is the znode below which everything is, if a URL names none.
const DefaultRoot = "/fenlock"

// location is what a URL says.
type location struct {
	servers []string // host:port
	root    string
	digest  func() (string, error) // user:password; nil: none
	name    string                 // for people: without the password
	member  string                 // what all clients of the group call it
}

var form = engine.Form{Engine: "zknode", Example: "zk://user:password@host:2181,host:2181/root",
	Schemes: []string{"zk"}, Port: "2181", Several: true}

// parse reads a URL. Its error shows no part of one that may have a password in it.
func parse(rawURL string) (l location, err error) {
	u, err := form.Parse(rawURL)
	if err != nil {
		return l, err
	}
	switch {
	case (u.User != "") != u.HasPassword():
		return l, u.Invalidf(
			"there have to be a user and a password, or neither: the form is %s, or zk://user@host/root?passwordfile=/path",
			form.Example)
	case strings.Contains(u.User, ":"):
		return l, u.Invalidf("the user has a colon, which ZooKeeper takes for the end of it")
	case u.User != "":
		// ZooKeeper's form of a user and a password.
		l.digest = func() (string, error) {
			password, err := u.Password()
			return u.User + ":" + password, err
		}
	}
	l.root = DefaultRoot
	for _, host := range u.Hosts {
		l.servers = append(l.servers, strings.ToLower(host)) // as groups have recorded them
	}
	if root := strings.Trim(u.Path, "/"); root != "" {
		if l.root, err = rootOf(root); err != nil {
			return l, u.Invalidf("%v", err)
		}
	}
	l.name = "zk://" + strings.Join(slices.Sorted(slices.Values(l.servers)), ",") + l.root
	l.member = cmp.Or(u.Name, l.name)
	return l, nil
}

// rootOf returns the path of a znode.
func rootOf(root string) (string, error) {
	root = "/" + root
	switch {
	case path.Clean(root) != root || strings.ContainsFunc(root, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "", errors.New("the path is not that of a znode: parts of printable ASCII, none of them empty, '.' or '..'")
	case strings.HasPrefix(root+"/", "/zookeeper/"):
		return "", errors.New("/zookeeper is ZooKeeper's own")
	case len(root) > 257:
		return "", errors.New("the path has more than 256 bytes")
	}
	return root, nil
}
