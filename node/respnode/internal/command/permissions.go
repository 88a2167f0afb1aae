package command

import (
	"slices"
	"strings"
	"unicode"
)

// The commands that a client of a server sends, itself or in its scripts, in the words of
// an access control list.
var (
	looks = []string{"+info", "+multi", "+exec", "+getrange", "+pttl", "+hmget", "+hgetall", "+scan", "+zcard", "+zrange",
		"+time"}
	locks = []string{
		"+config|get", "+script|exists", "+script|load", "+eval", "+evalsha",
		"+get", "+set", "+del", "+pexpire", "+hget", "+hset", "+hsetnx", "+hdel",
		"+zadd", "+zrank", "+zrem", "+zpopmin", "+publish", "+pubsub|numsub", "+subscribe", "+wait",
	}
)

// Permissions returns what a client that locks may do: keys, channels, commands.
func (k *Keys) Permissions() []string {
	rules := append(k.patterns("~"), "&"+NotifyPrefix+"*")
	return append(append(rules, k.looks()...), locks...)
}

// ReadPermissions returns what a client that only looks may do.
func (k *Keys) ReadPermissions() []string { return append(k.patterns("%R~"), k.looks()...) }

// looks returns the commands of a client that only looks. Keys with a hash tag may be a cluster's.
func (k *Keys) looks() []string {
	if _, after, tagged := strings.Cut(k.prefix, "{"); tagged && strings.IndexByte(after, '}') > 0 {
		return append(slices.Clip(looks), "+cluster|nodes")
	}
	return looks
}

// patterns returns the keys of a group of locks.
func (k *Keys) patterns(sign string) []string {
	if k.prefix == "" {
		return []string{sign + "*"} // a lock's key may be any
	}
	prefix := aclGlob(k.prefix)
	return []string{sign + prefix + "*", sign + registersPrefix + prefix, sign + queuePrefix + prefix + "*"}
}

// aclGlob makes a prefix match itself in a pattern of an access control list. That cannot
// have spaces: there any character is taken for one.
func aclGlob(prefix string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			return '?'
		}
		return r
	}, escapeGlob(prefix))
}
