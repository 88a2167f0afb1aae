package engine

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
)

var (
	several = Form{Engine: "etcdnode", Example: "etcd://user:password@host", Schemes: []string{"etcd"},
		Secure: []string{"etcds"}, Port: "2379", Several: true}
	single = Form{Engine: "mysqlnode", Example: "mysql://user:password@host", Schemes: []string{"mysql", "mariadb"},
		Port: "3306"}
	bare = Form{Engine: "pgnode", Example: "postgres://user:password@host", Schemes: []string{"postgres"},
		Several: true}
	open = Form{Engine: "pgnode", Example: "postgres://user:password@host", Schemes: []string{"postgres"}, Several: true,
		Open: true}
	socket = Form{Engine: "valkeynode", Example: "valkey://host", Schemes: []string{"valkey"},
		Secure: []string{"valkeys"}, Socket: "unix", Port: "6379"}
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		form                              Form
		raw, hosts, path, user, pass, nme string
	}{
		{several, "etcd://h", "h:2379", "", "", "", ""},
		{several, "etcd://H1,h2:1,[::1]/a/b?name=n", "H1:2379 h2:1 [::1]:2379", "/a/b", "", "", "n"},
		{several, "ETCD://[fe80::1%25enP8p1s0],[fe80::2%25a]:7", "[fe80::1%enP8p1s0]:2379 [fe80::2%a]:7", "", "", "", ""},
		{bare, "postgres://[fe80::1%25Eth0],b%C3%BCcher/d", "[fe80::1%Eth0] bücher", "/d", "", "", ""},
		{several, "etcds://u:p%40%2C%2F@h1,h2/", "h1:2379 h2:2379", "/", "u", "p@,/", ""},
		{several, "etcd://u:p@q@h", "h:2379", "", "u", "p@q", ""},
		{single, "mariadb://u@h:1/d%20e?tls=off", "h:1", "/d e", "u", "", ""},
		{bare, "postgres://u@a,b:5/d", "a b:5", "/d", "u", "", ""},
		{open, "postgres://u:p@/d", "", "/d", "u", "p", ""},
		{open, "postgres://?name=n", "", "", "", "", "n"},
		{open, "postgres://u@%2Frun%2Fpg,%2frun%2Fa%20b:7,h/d", "/run/pg /run/a b:7 h", "/d", "u", "", ""},
		{socket, "unix://u:p@/run/x?db=1", "", "/run/x", "u", "p", ""},
	} {
		u, err := c.form.Parse(c.raw)
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		password, err := u.Password()
		if strings.Join(u.Hosts, " ") != c.hosts || u.Path != c.path || u.User != c.user || password != c.pass ||
			err != nil || u.Name != c.nme || u.TLS != strings.HasPrefix(c.raw, "etcds") {
			t.Errorf("%s: %+v, %q, %v", c.raw, u, password, err)
		}
	}
}

// Each error says what is wrong, and has nothing of a password, also of one that was not escaped.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		form      Form
		raw, says string
	}{
		{several, "", "no scheme"}, {several, "etcd:h", "no scheme"}, {several, "secret://u:secret@h", "(etcd, etcds)"},
		{several, "etcd://u:sec/ret@h", "cannot be parsed"}, {several, "etcd://u:sec?ret@h", "cannot be parsed"},
		{several, "etcd://u:secret%zz@h", "cannot be parsed"},
		{several, "etcd://", "no host"}, {several, "etcd://h,", "no host"}, {several, "etcd://:1", "no host"},
		{several, "etcd://fe80::1", "without brackets"}, {bare, "postgres://::1:7/d", "without brackets"},
		{bare, "postgres://u:secret@%2Frun/d", "cannot be parsed"}, {bare, "postgres:///d", "no host"},
		{open, "postgres://u:secret@%2Frun:secret/d", "cannot be parsed"}, {open, "postgres://u:secret@%2Frun%z/d", "folder"},
		{open, "postgres://u:secret@%2Frun:0/d", "port"}, {open, "postgres://u:sec/ret@/d", "cannot be parsed"},
		{open, "postgres://%2Frun,%2frun/d", "twice"}, {open, "postgres://h,/d", "no host"},
		{several, "etcd://h,H", "H:2379 twice"}, {several, "etcd://u:secret@h,h:2379", "h:2379 twice"},
		{several, "etcd://h:secret", "cannot be parsed"}, {several, "etcd://h:0", "port"},
		{several, "etcd://h:65536", "port"},
		{several, "etcd://u:secret@h#secret", "etcd://h:2379: there is a fragment"}, {several, "etcd://h#", "fragment"},
		{several, "etcd://u:secret@h?%zz", "parameters cannot be parsed"},
		{several, "etcd://h?tls=on", "no parameter \"tls\": known are name, passwordfile, ca, cert, key, servername"},
		{several, "etcd://h?name=a&name=b", "name is there twice"}, {several, "etcd://h?name=", "name is empty"},
		{several, "etcd://h?name=a%20b", "has spaces"}, {several, "etcd://h?name=*", "is *"},
		{several, "etcd://h?name=a+b", "has spaces"},
		{several, "etcd://u:secret@h?passwordfile=/x", "one is enough"},
		{several, "etcd://u@h?passwordfile=/no/such", "passwordfile: /no/such does not exist"},
		{several, "etcd://h?ca=x", "the scheme is etcds"}, {several, "etcds://h?ca=/no/such", "ca: open /no/such"},
		{several, "etcds://h?cert=x", "go together"}, {several, "etcds://h?cert=/no/c&key=/no/k", "/no/c"},
		{several, "etcds://h?ca=" + os.Args[0], "no certificate"},
		{single, "mysql://a,b/d", "comma"}, {single, "mysql://h/d?tls=secret", "tls is one of on, off"},
		{single, "mysql://h/d?password=x&secret2=", "known are"}, {single, "mysql://h/d?secret2", "not known: known are"},
		{single, "mysql://h/d?tsl=secret", "no parameter \"tsl\""},
		{socket, "unix://h/run/x", "unix:///path"}, {socket, "unix://", "unix:///path"},
	} {
		u, err := c.form.Parse(c.raw)
		if u != nil || !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec/") {
			t.Errorf("%s: %+v, %v; want %q", c.raw, u, err, c.says)
		}
	}
}

// What comes from a file is read anew each time.
func TestFilesAreReadAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	u, err := several.Parse("etcd://u@h?passwordfile=" + url.QueryEscape(file))
	if err != nil || !u.HasPassword() {
		t.Fatal(u, err)
	}
	for _, want := range []string{"one", "two"} {
		write(want)
		if got, err := u.Password(); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	os.Remove(file)
	if _, err := u.Password(); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%v; want ErrMisconfigured", err)
	}
}

func TestLocal(t *testing.T) {
	for raw, want := range map[string]bool{
		"postgres://localhost/d": true, "postgres://localhost:5432,127.0.0.1:1/d": true, "postgres://[::1]:5/d": true,
		"postgres://[::1]/d":                 true,
		"postgres://%2Frun,%2Fvar%2Frun:5/d": true, "postgres:///d": true, "postgres://%2Frun,db/d": false,
		"postgres://localhost,db/d": false, "postgres://db:5432/d": false,
	} {
		u, err := open.Parse(raw)
		if err != nil || u.Local() != want {
			t.Errorf("%s: %+v, %v", raw, u, err)
		}
	}
}

// Everything is in the documents, in the same words.
func TestParametersInDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	_, section, _ := strings.Cut(string(text), "\n| parameter | engines | what it is |\n|---|---|---|\n")
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		have = append(have, strings.TrimSpace(line))
	}
	names := map[string]string{"valkeynode": "Valkey, Redis", "pgnode": "PostgreSQL", "mysqlnode": "MySQL, MariaDB",
		"bucketnode": "S3", "natsnode": "NATS",
		"etcdnode": "etcd"}
	var want []string
	for _, p := range Parameters {
		engines := "all but files"
		for i, e := range p.Engines {
			if i == 0 {
				engines = names[e]
			} else {
				engines += ", " + names[e]
			}
		}
		values := ""
		if p.Values != nil {
			values = "`" + strings.Join(p.Values, "`, `") + "`. "
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s%s |", p.Name, engines, values, p.Means))
	}
	if !slices.Equal(have, want) {
		t.Errorf("docs/engines.md has\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// FuzzParse reads whatever URL a person could write, with a password that was not escaped.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"etcd://h1,h2/p", "etcds://u:p@h?name=n", "etcd://u:p@h#f", "unix:///x",
		"etcd://[fe80::1%25eth0]:1", "postgres://u:p@%2Frun:1,h/d", "postgres://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.Contains(raw, "file") || strings.Contains(raw, "ca") || strings.Contains(raw, "cert") {
			return // no input may say which file is read
		}
		for _, form := range []Form{several, single, bare, open, socket} {
			u, err := form.Parse(raw)
			switch {
			case err != nil && !errors.Is(err, node.ErrInvalid):
				t.Errorf("%q: %v", raw, err)
			case err == nil && u.Scheme != form.Socket && !form.Open && (len(u.Hosts) == 0 || u.Hostname() == ""):
				t.Errorf("%q: %+v", raw, u)
			}
		}
	})
}
