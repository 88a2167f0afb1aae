package ui

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
)

// DefaultAddress is where the page is, unless it is told otherwise. 5625 is how a
// telephone spells LOCK.
const DefaultAddress = "127.0.0.1:5625"

// Listen listens at an address, host:port; port 0 is a free one. Without a token, only an
// address of the loopback is taken: whoever reaches another one could look. The errors say
// what to do.
func Listen(address string, token bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no address: HOST:PORT is wanted, such as %s", address, DefaultAddress)
	}
	l, err := net.Listen("tcp", address)
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program, or by another fenlock ui: choose another port (0 is any that is free)", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s may not be listened at by this user: ports from 1024 on may", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is no address of this machine", address)
	case errors.As(err, &dns):
		return nil, fmt.Errorf("%q: %q is no name of this machine, or %q no port", address, host, port)
	case err != nil:
		return nil, fmt.Errorf("%s: %v", address, cause(err))
	}
	if !token && !loopback(l.Addr()) {
		l.Close()
		return nil, fmt.Errorf("%s can be reached from other machines, and whoever reaches it could look at the locks: say --make-token or --token-file, or listen at a loopback address such as %s", address, DefaultAddress)
	}
	return l, nil
}

// cause is the error of a system call, without the address that it was for.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func loopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// URL is where a listener's page is. Where it listens at all addresses, it is host's, or one
// of this machine's if that is empty. A token may be empty.
func URL(a net.Addr, host, token string) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return "http://" + a.String() + "/"
	}
	u := url.URL{Scheme: "http", Host: at.String(), Path: "/"}
	switch {
	case host != "":
		u.Host = net.JoinHostPort(host, fmt.Sprint(at.Port()))
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
