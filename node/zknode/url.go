package zknode

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/secretfile"
)

// DefaultRoot is the znode below which everything is, if a URL names none.
const DefaultRoot = "/fenlock"

const defaultPort = "2181"

// location is what a URL says.
type location struct {
	servers []string // host:port
	root    string
	digest  func() (string, error) // user:password; nil: none
	name    string                 // for people: without the password
	member  string                 // what all clients of the group call it
}

// parse reads a URL. Its error shows no part of one that may have a password in it.
func parse(rawURL string) (l location, err error) {
	shown := strconv.Quote(rawURL)
	if strings.Contains(rawURL, "@") {
		shown = "the URL (not shown: it has an @)"
	}
	rest, ok := strings.CutPrefix(rawURL, "zk://")
	if !ok {
		return l, invalidf("%s is not a zk:// URL: zk://host:2181,host:2181/root", shown)
	}
	if strings.Contains(rest, "#") {
		return l, invalidf("%s has a fragment (write %%23 for a #)", shown)
	}
	rest, query, _ := strings.Cut(rest, "?")
	file, err := passwordFile(query)
	if err != nil {
		return l, invalidf("%s: %v", shown, err)
	}
	authority, root, hasRoot := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if l.digest, err = digest(authority[:at], file); err != nil {
			return l, invalidf("%s: %v", shown, err)
		}
		authority = authority[at+1:]
	} else if file != "" {
		return l, invalidf("%s has a passwordfile and no user: zk://user@host/root?passwordfile=/path", shown)
	}
	for _, server := range strings.Split(authority, ",") {
		address, err := address(server)
		if err != nil {
			return l, invalidf("%s: %v", shown, err)
		}
		if slices.Contains(l.servers, address) {
			return l, invalidf("%s names a server twice", shown)
		}
		l.servers = append(l.servers, address)
	}
	l.root = DefaultRoot
	if hasRoot && root != "" {
		if l.root, err = rootOf(root); err != nil {
			return l, invalidf("%s: %v", shown, err)
		}
	}
	sorted := slices.Sorted(slices.Values(l.servers))
	l.member = "zk://" + strings.Join(sorted, ",") + l.root
	l.name = l.member
	return l, nil
}

// passwordFile returns the only parameter that there is, empty if it is not there.
func passwordFile(query string) (string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", fmt.Errorf("the parameters are not escaped as in a URL")
	}
	for key, all := range values {
		if key != "passwordfile" || len(all) > 1 || all[0] == "" {
			return "", fmt.Errorf("the only one of the parameters is passwordfile, once, with a path (write %%3F for a ? that begins none)")
		}
	}
	return values.Get("passwordfile"), nil
}

// digest is ZooKeeper's form of a user and a password, which may be in a file.
func digest(userinfo, file string) (func() (string, error), error) {
	user, password, ok := strings.Cut(userinfo, ":")
	switch {
	case file != "" && (ok || user == ""):
		return nil, fmt.Errorf("before the @ is a user alone if there is a passwordfile")
	case file == "" && (!ok || user == "" || password == ""):
		return nil, fmt.Errorf("before the @ are a user, a colon and a password")
	}
	user, err := url.PathUnescape(user)
	if err == nil {
		password, err = url.PathUnescape(password)
	}
	if err != nil || strings.Contains(user, ":") {
		return nil, fmt.Errorf("user or password are not escaped as in a URL")
	}
	if file == "" {
		return func() (string, error) { return user + ":" + password, nil }, nil
	}
	read := func() (string, error) {
		password, err := secretfile.ReadPassword(file)
		if err != nil {
			return "", fmt.Errorf("%w: passwordfile: %w", node.ErrMisconfigured, err)
		}
		return user + ":" + password, nil
	}
	if _, err := secretfile.ReadPassword(file); err != nil {
		return nil, fmt.Errorf("passwordfile: %w", err)
	}
	return read, nil
}

func address(server string) (string, error) {
	host, port := server, defaultPort
	if strings.HasSuffix(server, "]") { // an IPv6 address
		host = strings.TrimPrefix(strings.TrimSuffix(server, "]"), "[")
	} else if strings.Contains(server, ":") {
		var err error
		if host, port, err = net.SplitHostPort(server); err != nil {
			return "", fmt.Errorf("a server is host:port, with an IPv6 address in brackets")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("a port is a number from 1 to 65535")
	}
	if host == "" || strings.ContainsAny(host, " \t\n%@/\\\"") {
		return "", fmt.Errorf("a server has no host, or one that is none")
	}
	return net.JoinHostPort(strings.ToLower(host), port), nil
}

// rootOf returns the path of a znode.
func rootOf(escaped string) (string, error) {
	root, err := url.PathUnescape(strings.TrimSuffix(escaped, "/"))
	if err != nil {
		return "", fmt.Errorf("the path is not escaped as in a URL")
	}
	parts := strings.Split(root, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return "", fmt.Errorf("the path is not that of a znode: parts of printable ASCII, none of them empty, '.' or '..'")
		}
	}
	if parts[0] == "zookeeper" {
		return "", fmt.Errorf("/zookeeper is ZooKeeper's own")
	}
	if len(root) > 256 {
		return "", fmt.Errorf("the path has more than 256 bytes")
	}
	return "/" + root, nil
}

// invalidf returns an error that matches node.ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: zknode: %s", node.ErrInvalid, fmt.Sprintf(format, args...))
}
