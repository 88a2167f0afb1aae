package transport

import "net"

// Remote returns the address of the newest connection's other end, without a port, or ""
// if there is none, or no network in between.
func (c *Conn) Remote() string {
	w := c.newest.Load()
	if w == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(w.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}
