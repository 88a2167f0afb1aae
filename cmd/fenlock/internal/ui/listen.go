package ui

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
)

// Listen listens at an address, host:port; port 0 is a free port. Without a token, only an
// address of the loopback is taken, because any client that reaches the page could read it.
// The errors say what to do.
func Listen(address string, token bool) (net.Listener, error) {
	p := listen.Purpose{Example: listen.PageAddress, Others: "fenlock ui"}
	if !token {
		p.Refusal = "look at the locks: say --make-token or --token-file"
	}
	return listen.TCP(address, p)
}

// URL is where a listener's page is, at the first of the names that it has. Without one, where it
// listens at all addresses, it is at one of this machine's. A token may be empty.
func URL(a net.Addr, hosts []string, token string) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return "http://" + a.String() + "/"
	}
	u := url.URL{Scheme: "http", Host: at.String(), Path: "/"}
	switch {
	case len(hosts) > 0:
		u.Host = net.JoinHostPort(hosts[0], fmt.Sprint(at.Port()))
	case at.Addr().IsUnspecified():
		u.Host = net.JoinHostPort(machine(), fmt.Sprint(at.Port()))
	}
	if token != "" {
		u.RawQuery = url.Values{"token": {token}}.Encode()
	}
	return u.String()
}

// machine is an address of this machine that others may reach it by.
func machine() string {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
