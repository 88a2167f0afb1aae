package etcdnode

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
)

func TestURL(t *testing.T) {
	for _, c := range []struct{ url, name, member, prefix, user, password string }{
		{"etcd://h", "etcd://h:2379", "h:2379", "/fenlock/", "", ""},
		{"etcd://h1,h2:1,[::1]", "etcd://h1:2379,h2:1,[::1]:2379", "h1:2379,h2:1,[::1]:2379", "/fenlock/", "", ""},
		{"etcd://u:p%40%2C%2F@h1,h2/locks/a//", "etcd://h1:2379,h2:2379/locks/a", "h1:2379,h2:2379/locks/a", "/locks/a/", "u",
			"p@,/"},
		{"etcds://h/?name=n&servername=s", "etcds://h:2379", "n", "/fenlock/", "", ""},
	} {
		a, err := parseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		password, err := a.Password()
		if a.name != c.name || a.member != c.member || string(a.prefix) != c.prefix || a.User != c.user ||
			password != c.password || err != nil {
			t.Errorf("%s: %+v, %q, %v", c.url, a, password, err)
		}
	}
	file := t.TempDir() + "/password"
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := parseURL("etcd://u@h?passwordfile=" + file); err != nil {
		t.Error(err)
	} else if p, err := a.Password(); p != "secret" || err != nil {
		t.Errorf("%q, %v", p, err)
	}
}

// What package engine refuses is in its tests.
func TestBadURL(t *testing.T) {
	for _, url := range []string{
		"http://h", "etcd://h,h:2379", "etcd://u@h", "etcd://:secret@h", "etcd://u:sec/ret@h", "etcd://u:secret@h?x=1",
		"etcd://h?ca=x", "etcds://u:secret@h?cert=x",
	} {
		a, err := parseURL(url)
		if !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%s: %+v, %v; want ErrInvalid", url, a, err)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec/") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{"etcd://h1,h2/p", "etcds://u:p@h?name=n", "etcd://u:p@h#f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseURL(s)
		if err != nil {
			if !errors.Is(err, node.ErrInvalid) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if len(a.Hosts) == 0 || !strings.HasPrefix(string(a.prefix), "/") || !strings.HasSuffix(string(a.prefix), "/") {
			t.Errorf("%q: %+v", s, a)
		}
	})
}
