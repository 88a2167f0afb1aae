package listen

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// PageAddress is where the page of fenlock ui is, unless it is told otherwise. 5625 is how a
// telephone spells LOCK.
const PageAddress = "127.0.0.1:5625"

// MinToken is the length of the shortest token, in bytes: it is all that keeps others
// out, and nothing keeps them from trying.
const MinToken = 16

// SameToken compares without telling by the time it takes how much is right.
func SameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// Meant reports whether a Host header is one that leads here: an address, localhost, or one of
// these names. A site can have another name lead to this address, and its pages read the answers
// then.
func Meant(host string, names ...string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host // without a port
		if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
			name = host[1 : n-1]
		}
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = canonical(name)
	return name == "localhost" || slices.ContainsFunc(names, func(n string) bool { return canonical(n) == name })
}

func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }
