package etcdnode

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
)

// Close does not wait for a login at a member that never answers.
func TestConnectEndsWithTheNode(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a, err := parseURL("etcd://user:password@" + silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(t.Context())
	end()
	if c, err := a.connect(life, a.Hosts[0], new(atomic.Int64)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v; want Canceled, and not the end of the time that it has", c, err)
	}
}
