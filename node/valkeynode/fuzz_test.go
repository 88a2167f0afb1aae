package valkeynode

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/valkeynode/internal/transport"
)

// FuzzURL opens nodes at any URL, with a password in it that is not escaped. What is accepted can
// be connected to; what is refused is refused as invalid; and neither the error nor the node's name
// has the password.
func FuzzURL(f *testing.F) {
	for _, seed := range [][5]string{
		{"valkey://", "ann", "", "", "host:7000/1"}, {"redis://", "", "", "", "host"},
		{"valkeys://", "ann", "", "", "[::1]:7000"}, {"valkeys://", "ann", "", "", "host?ca=/nowhere"},
		{"rediss://", "", "", "", "host?cert=x&key=y"}, {"unix://", "", "", "", "/run/valkey.sock?db=2"},
		{"valkey://", "ann", "", "", "host?passwordfile=/nowhere"},
		{"valkey://", "ann", "", "", ""}, {"unix://", "ann", "", "", "host/run/x"},
		{"valkey://", "ann", "@", "/", "host"}, {"valkey://", "ann", ":", "@x", "host"},
		{"valkey://", "ann", "/", "#", "host"}, {"valkey://", "", "?", "&", "host"},
		{"valkey://", "ann", "%", "%41", "host"}, {"valkey://", "ann", "%2f", "%40", "host"},
		{"valkey://", "", "[", "]", ":7000"}, {"valkey://", "ann", " ", "\n", "host"},
		{"valkey://", "ann", "", "", "host:port"}, {"valkey://", "ann", "", "", "host:1/x"},
		{"valkey://", "ann", "", "", "host?%zz"},
		{"valkey://", "ann", "", "", "host#1"}, {"valkey://", "ann", "", "", "host?db=1"},
		{"valkey://", "ann", "", "", "host?ca=a&ca=b"}, {"valkey://", "ann", "", "", "host?tls=no"},
		{"://", "", "", "", "host"}, {"", "", "", "", "host"}, {"ftp://", "", "", "", "host"}, {"sword:", "", "", "", "host"},
		{"valkey:", "", "", "", "host"}, {"valkey:/", "", "", "", "host"},
		{"valkey://", "ann", "é", "\xff", "host"}, {"valkey://", "", "", "", "host:65535/15"},
		{"valkey://", "", "", "", "h%41"}, {"valkey://", "", "", "", "[fe80::1%25eth0]:1"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	// Whatever a URL gives a meaning to may be in the password, and the rest be wrong, too.
	for _, c := range []string{
		"@", ":", "/", "#", "?", "%", "%41", "%zz", " ", "[", "]", "12/", "12?", "12#",
		"@x/y?x=y#z", "\\", "\n", ",", ":x,", "é-",
	} {
		for _, around := range [][3]string{
			{"valkey://", "ann", "host:7000/1"}, {"valkeys://", "", "host:7000?ca=/nowhere"}, {"valkey://", "", "host:7000/x"},
			{"valkey://", "", "host:7000?unknown=1"}, {"valkey://", "", "host:port"}, {"unix://", "", "/run/x?unknown=1"},
			{"ftp://", "", "host"}, {"://", "", "host"}, {"", "", "host"}, {"", "user", "host"},
		} {
			f.Add(around[0], around[1], c, "", around[2])
			f.Add(around[0], around[1], "", c, around[2])
		}
	}
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		const secret = "swordfish"
		password := before + secret + after
		if strings.Contains(scheme+user+rest, "fish") || len(scheme)+len(user)+len(before)+len(after)+len(rest) > 500 {
			return
		}
		// As it is, without the colon, and as it should be.
		checkOpen(t, scheme+user+":"+password+"@"+rest, secret, "")
		checkOpen(t, scheme+password+"@"+rest, secret, "")
		n := checkOpen(t, scheme+url.UserPassword(user, password).String()+"@"+rest, secret, password)
		plain := strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") == "://" && !strings.Contains(rest, "@")
		if n != nil && plain {
			if server, err := transport.ParseURL(scheme + url.UserPassword(user, password).String() + "@" + rest); err != nil ||
				server.Option.Password != password {
				t.Errorf("the password %q was read as %q, %v", password, server.Option.Password, err)
			}
		}
		if good := "valkey://host:7000/1"; scheme+rest == good && (n == nil || n.String() != good) {
			t.Errorf("with the password %q, escaped, the node is %v", password, n)
		}
	})
}

// checkOpen opens a node at a URL, and closes it.
func checkOpen(t *testing.T, raw, secret, password string) *Node {
	t.Helper()
	if u, err := url.Parse(raw); err == nil {
		query := u.Query()
		for _, file := range slices.Concat(query["ca"], query["cert"], query["key"], query["passwordfile"]) {
			if !slices.Contains([]string{"", "a", "b", "x", "y", "/nowhere"}, file) {
				return nil // no input may say which file is read
			}
		}
	}
	n, err := Open(raw)
	if err != nil {
		if n != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("Open(%q): %v, with a node: %v", raw, err, n != nil)
		}
		if strings.Contains(err.Error(), secret) || password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("Open(%q): the password is in the error: %v", raw, err)
		}
		return nil
	}
	defer n.Close()
	server, err := transport.ParseURL(raw)
	opt, name := server.Option, server.Name
	if err != nil || name != n.String() {
		t.Fatalf("%q: the node is called %q; the URL says %q, %v", raw, n, name, err)
	}
	if strings.Contains(name, secret) {
		t.Errorf("Open(%q): the password is in the name %q", raw, name)
	}
	var config *tls.Config
	if server.TLS != nil {
		if config, err = server.TLS(); err != nil || config.InsecureSkipVerify {
			t.Errorf("%q: TLS %+v, %v", raw, config, err)
		}
	}
	if (config != nil) != (strings.HasPrefix(name, "valkeys://") || strings.HasPrefix(name, "rediss://")) {
		t.Errorf("%q: TLS %+v for the node %s", raw, config, name)
	}
	if len(opt.InitAddress) != 1 || !strings.Contains(name, opt.InitAddress[0]) || opt.SelectDB < 0 {
		t.Fatalf("%q: addresses %q, database %d, name %q", raw, opt.InitAddress, opt.SelectDB, name)
	}
	address := opt.InitAddress[0]
	if strings.HasPrefix(name, "unix://") {
		if !strings.HasPrefix(address, "/") {
			t.Errorf("%q: the socket %q", raw, address)
		}
		return n
	}
	host, port, err := net.SplitHostPort(address)
	if number, err2 := strconv.Atoi(port); err != nil || err2 != nil || host == "" || number < 1 || number > 65535 {
		t.Errorf("%q was accepted, and nothing can be at the address %q", raw, address)
	}
	return n
}
