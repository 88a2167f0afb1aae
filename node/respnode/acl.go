package respnode

import "github.com/fenlock/fenlock/node/respnode/internal/command"

// Permissions returns the least that a server's user must be allowed to, for the locks with a
// prefix. These are words of a rule of ACL SETUSER. They grant, and take nothing away: give them to
// a user that has nothing else. A URL with a database number needs "+select" too. The error is
// about the prefix, and matches node.ErrInvalid.
//
// A prefix with a hash tag may be of a node that is a cluster, which is asked for its members. For
// a URL valkey-cluster://HOST/TAG it is "{TAG}", and what WithPrefix says or the default.
//
// Without "+config|get" all works but one thing: that a server is durable is not believed.
// With it, a client may read the server's passwords, if its configuration has any
// (requirepass, masterauth).
func Permissions(prefix string) ([]string, error) {
	keys, err := command.NewKeys(prefix)
	if err != nil {
		return nil, err
	}
	return keys.Permissions(), nil
}

// ReadPermissions is Permissions for a client that only looks, by Inspect, List and
// Registers: it can read who holds a lock and take none.
func ReadPermissions(prefix string) ([]string, error) {
	keys, err := command.NewKeys(prefix)
	if err != nil {
		return nil, err
	}
	return keys.ReadPermissions(), nil
}
