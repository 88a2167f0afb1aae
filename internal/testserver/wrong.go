package testserver

import (
	"net"
	"testing"
)

// WrongAddrs returns an address at which nothing listens, and one at which a server of another kind
// does, which speaks first.
func WrongAddrs(t testing.TB) (closed, other string) {
	t.Helper()
	var listeners [2]net.Listener
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
	}
	listeners[0].Close()
	t.Cleanup(func() { listeners[1].Close() })
	go func() {
		for {
			c, err := listeners[1].Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			c.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n"))
		}
	}()
	return listeners[0].Addr().String(), listeners[1].Addr().String()
}
