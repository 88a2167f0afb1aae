//go:build unix

package etcdnode_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := testserver.Certificate(t)
	other, otherKey := testserver.Certificate(t)
	server := testserver.StartEtcd(t, 1, "--cert-file", cert, "--key-file", key)
	strict := testserver.StartEtcd(t, 1, "--cert-file", cert, "--key-file", key, "--trusted-ca-file", cert,
		"--client-cert-auth")
	plain := testserver.StartEtcd(t, 1)
	for _, c := range []struct {
		name       string
		e          *testserver.Etcd
		scheme     string
		parameters url.Values
		says       string // "" if it works
	}{
		{"right CA", server, "etcds", url.Values{"ca": {cert}}, ""},
		{"wrong CA", server, "etcds", url.Values{"ca": {other}}, "parameter ca"},
		{"system's CAs", server, "etcds", nil, "parameter ca"},
		{"another name", server, "etcds", url.Values{"ca": {cert}, "servername": {"other.example"}}, "servername"},
		{"the right name", server, "etcds", url.Values{"ca": {cert}, "servername": {"localhost"}}, ""},
		{"TLS to a server without", plain, "etcds", url.Values{"ca": {cert}}, "speak TLS?"},
		{"no TLS", server, "etcd", nil, "want TLS?"},
		{"client certificate", strict, "etcds", url.Values{"ca": {cert}, "cert": {cert}, "key": {key}}, ""},
		{"no client certificate", strict, "etcds", url.Values{"ca": {cert}}, ""},
		{"client certificate of another CA", strict, "etcds", url.Values{"ca": {cert}, "cert": {other}, "key": {otherKey}},
			""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // a request may wait for all of its time
			n := open(t, c.scheme+"://"+c.e.Addrs()+"?"+c.parameters.Encode())
			_, err := n.Do(within(t, 10*time.Second), request(node.Acquire, c.name, "1", time.Second))
			// in which words is a matter of luck
			refused := c.name == "no client certificate" || strings.Contains(c.name, "another CA")
			switch {
			case c.says == "" && !refused && err != nil:
				t.Error(err)
			case refused && err == nil:
				t.Error("it works")
			case c.says != "" && (errors.Is(err, node.ErrMisconfigured) == strings.HasSuffix(c.says, "?") ||
				!strings.Contains(err.Error(), c.says)):
				t.Errorf("%v; want ErrMisconfigured with %q", err, c.says)
			}
		})
	}
}
