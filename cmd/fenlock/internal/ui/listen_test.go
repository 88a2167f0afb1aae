package ui

import (
	"net"
	"strings"
	"testing"
)

func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for _, c := range []struct {
		address string
		token   bool
		said    string // "" if it can be listened at
	}{
		{"127.0.0.1:0", false, ""},
		{"localhost:0", false, ""},
		{"127.0.0.53:0", false, ""},
		{"0.0.0.0:0", true, ""},
		{":0", true, ""},
		{"0.0.0.0:0", false, "0.0.0.0:0 can be reached from other machines"},
		{":0", false, "say --make-token or --token-file"},
		{taken.Addr().String(), false, "is in use by another program"},
		{taken.Addr().String(), true, "is in use by another program"},
		{"5625", false, `"5625" is no address: HOST:PORT is wanted`},
		{"", false, "HOST:PORT is wanted"},
		{"127.0.0.1:port", false, "no port"},
		{"127.0.0.1:99999", false, "invalid port"},
		{"192.0.2.1:0", true, "is no address of this machine"},
		{"http://127.0.0.1:5625/", false, "HOST:PORT is wanted"},
	} {
		l, err := Listen(c.address, c.token)
		switch {
		case (err == nil) != (c.said == ""):
			t.Errorf("%s, token %v: %v", c.address, c.token, err)
		case err != nil && !strings.Contains(err.Error(), c.said):
			t.Errorf("%s, token %v: %v; want %q", c.address, c.token, err, c.said)
		}
		if err == nil {
			l.Close()
		}
	}
}

func TestURL(t *testing.T) {
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 81} }
	for _, c := range []struct {
		addr  net.Addr
		hosts []string
		token string
		want  string
	}{
		{at("127.0.0.1"), nil, "", "http://127.0.0.1:81/"},
		{at("::1"), nil, "", "http://[::1]:81/"},
		{at("10.0.0.1"), nil, "a b&c", "http://10.0.0.1:81/?token=a+b%26c"},
		{at("0.0.0.0"), []string{"locks.example.com"}, "x", "http://locks.example.com:81/?token=x"},
	} {
		if got := URL(c.addr, c.hosts, c.token); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
	if got := URL(at("0.0.0.0"), nil, ""); strings.Contains(got, "0.0.0.0") {
		t.Errorf("no browser can go to %s", got)
	}
}
