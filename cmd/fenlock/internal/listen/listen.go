// Package listen opens the addresses at which others ask fenlock something by HTTP.
package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Purpose is what an address is for, in the words of its errors.
type Purpose struct {
	Example string // an address that could be meant
	Others  string // which fenlock may have it already
	// Refusal is what others could do who reach the address, and what to say if they may.
	// Without it, they may.
	Refusal string
}

// TCP listens at an address, host:port; port 0 is a free one. With a refusal, only an address
// of the loopback is taken. The errors say what to do.
func TCP(address string, p Purpose) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no address: HOST:PORT is wanted, such as %s", address, p.Example)
	}
	l, err := net.Listen("tcp", address)
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf(
			"%s is in use by another program, or by another %s: choose another port (0 is any that is free)", address, p.Others)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s may not be listened at by this user: ports from 1024 on may", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is no address of this machine", address)
	case errors.As(err, &dns):
		return nil, fmt.Errorf("%q: %q is no name of this machine, or %q no port", address, host, port)
	case err != nil:
		return nil, fmt.Errorf("%s: %v", address, cause(err))
	}
	if p.Refusal != "" && !loopback(l.Addr()) {
		l.Close()
		return nil, fmt.Errorf("%s can be reached from other machines, and every program that reaches it could %s, or listen at a loopback address such as %s", address, p.Refusal, p.Example)
	}
	return l, nil
}

// cause is the error of a system call, without the address that it was for.
func cause(err error) error {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Err
	}
	return err
}

func loopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}
