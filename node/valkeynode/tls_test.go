package valkeynode_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

func TestTLS(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.StartTLS(t, kind)
		strict := testserver.StartTLS(t, kind, "tls-auth-clients yes")
		plain := testserver.Start(t, kind)
		with := func(s *testserver.Server, parameters ...string) string {
			query := url.Values{}
			for i := 0; i < len(parameters); i += 2 {
				query.Set(parameters[i], parameters[i+1])
			}
			return s.URL() + "?" + query.Encode()
		}
		for _, s := range []*testserver.Server{server, strict} {
			s.MarkAdmitted("fenlock:", groupTTL)
		}
		for _, c := range []struct {
			name, url string
			says      string // "" if it works
		}{
			{"right CA", with(server, "ca", server.CAFile), ""},
			{"right CA, by name", strings.Replace(with(server, "ca", server.CAFile, "name", server.Addr()), "127.0.0.1",
				"localhost", 1), ""},
			{"wrong CA", with(server, "ca", strict.CAFile), "certificate"},
			{"system's CAs", with(server), "certificate"},
			{"another name", with(server, "ca", server.CAFile, "servername", "other.example"), "servername"},
			{"the right name", with(server, "ca", server.CAFile, "servername", "localhost"), ""},
			{"no TLS", strings.Replace(server.URL(), "s://", "://", 1), "write valkeys for valkey"},
			{"TLS to a server without", strings.Replace(plain.URL(), "://", "s://", 1), "write valkey for valkeys"},
			{"client certificate", with(strict, "ca", strict.CAFile, "cert", strict.CertFile, "key", strict.KeyFile), ""},
			// In TLS 1.3 these refusals come after the handshake. Whether the reason can be
			// read before the connection is reset is a matter of luck.
			{"client certificate of another CA",
				with(strict, "ca", strict.CAFile, "cert", server.CertFile, "key", server.KeyFile), "refuse"},
			{"no client certificate", with(strict, "ca", strict.CAFile), "client's certificate"},
		} {
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword("default", "any-secret") // the default user takes any
			n := joined(t, u.String(), groupTTL)
			a, err := n.Do(bounded(t), as(node.Acquire, request(c.name, "one")))
			switch {
			case c.says == "" && (err != nil || a.Status != node.Granted):
				t.Errorf("%s: %+v, %v", c.name, a, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), u.Host)):
				t.Errorf("%s: %+v, %v; want an error with %q", c.name, a, err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "any-secret") {
				t.Errorf("%s: the password is in %q", c.name, err)
			}
			if c.says != "" && c.says != "refuse" && !errors.Is(err, fenlock.ErrMisconfigured) {
				t.Errorf("%s: %v does not match ErrMisconfigured", c.name, err)
			}
		}
	})
}
