package transport

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		raw, name, address, user, password string
		db                                 int
		tls                                bool
	}{
		{raw: "valkey://10.0.0.1", name: "valkey://10.0.0.1:6379", address: "10.0.0.1:6379"},
		{raw: "redis://host:7000/3", name: "redis://host:7000/3", address: "host:7000", db: 3},
		{raw: "redis://host:7000/", name: "redis://host:7000", address: "host:7000"},
		{raw: "valkey://[::1]:7000", name: "valkey://[::1]:7000", address: "[::1]:7000"},
		{raw: "valkey://:pw@host", name: "valkey://host:6379", address: "host:6379", password: "pw"},
		{raw: "valkey://ann:pw@host", name: "valkey://host:6379", address: "host:6379", user: "ann", password: "pw"},
		{raw: "valkeys://ann:pw@host", name: "valkeys://host:6379", address: "host:6379", user: "ann", password: "pw",
			tls: true},
		{raw: "rediss://host", name: "rediss://host:6379", address: "host:6379", tls: true},
		{raw: "unix:///run/valkey.sock", name: "unix:///run/valkey.sock", address: "/run/valkey.sock"},
		{raw: "unix://ann:pw@/run/valkey.sock?db=2", name: "unix:///run/valkey.sock/2", address: "/run/valkey.sock",
			user: "ann", password: "pw", db: 2},
	} {
		server, err := ParseURL(c.raw)
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		opt, name := server.Option, server.Name
		if name != c.name || opt.InitAddress[0] != c.address || opt.Username != c.user || opt.Password != c.password ||
			opt.SelectDB != c.db || (server.TLS != nil) != c.tls {
			t.Errorf("%s: name %q, address %q, user %q, password %q, db %d, TLS %v",
				c.raw, name, opt.InitAddress[0], opt.Username, opt.Password, opt.SelectDB, server.TLS != nil)
		}
	}
}

// Neither a URL nor the pieces of a list that was split at a comma of a password show any
// of it. All else about passwords is in FuzzURL of the node.
func TestPasswordIsNeverInAnError(t *testing.T) {
	for _, password := range []string{"se,cret", "se:cr,et", "12,secret", "se@cret", "se/cret", "12?se#cret", "%secret"} {
		for _, form := range []string{
			"valkey://ann:%s@host:7000/1", "valkeys://:%s@host:7000?ca=/nowhere", "valkey://:%s@",
			"unix://:%s@/run/x?unknown=1", "unix://:%s@host/run/x", "secret-user:%s@host",
		} {
			raw := fmt.Sprintf(form, password)
			for _, piece := range append(strings.Split(raw, ","), raw) {
				if _, err := ParseURL(piece); err != nil && strings.Contains(err.Error(), "cr") {
					t.Errorf("%q: the password is in %q", piece, err)
				}
			}
		}
	}
}

// What any engine refuses in a URL is in the tests of package engine.
func TestParseURLRefuses(t *testing.T) {
	for _, c := range []struct{ raw, says string }{
		{"http://host", "(valkey, redis, valkeys, rediss, unix)"},
		{"valkey://host/hunter2", "not a number"},
		{"valkey://host/-1", "not a number"},
		{"valkey://host/1/2", "not a number"},
		{"valkey://host?db=hunter2", "written as the path"},
		{"valkey://host?tls=true", "known are name, passwordfile, ca, cert, key, servername, db"},
		{"valkey://ann@host", "no password"},
		{"unix:///run/x?db=a", "not a number"},
	} {
		_, err := ParseURL(c.raw)
		if !errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v; want ErrInvalid with %q", c.raw, err, c.says)
		}
	}
}

// All clients of a group call a node by one name, however each reaches it.
func TestMemberName(t *testing.T) {
	for raw, want := range map[string]string{
		"valkey://ann:pw@host":             "host:6379",
		"rediss://host:6379":               "host:6379",
		"redis://host/2":                   "host:6379/2",
		"valkey://10.0.0.1:7000?name=a":    "a",
		"unix:///run/valkey.sock":          "/run/valkey.sock",
		"unix:///run/valkey.sock?name=a:1": "a:1",
	} {
		if server, err := ParseURL(raw); err != nil || server.Member != want {
			t.Errorf("%s: %+v, %v; want %q", raw, server, err, want)
		}
	}
	for _, name := range []string{"", "*", "a+b", "a%0Ab", "a%20b"} {
		if server, err := ParseURL("valkey://host?name=" + name); err == nil {
			t.Errorf("the name %q was taken as %q", name, server.Member)
		}
	}
}
