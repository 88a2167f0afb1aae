package valkeynode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
	"github.com/fenlock/fenlock/node/valkeynode/internal/replytest"
	"github.com/fenlock/fenlock/node/valkeynode/internal/transport"
	"github.com/valkey-io/valkey-go"
)

// FuzzURL opens nodes at whatever URL somebody could write, a password that
// nobody has escaped in it. What is accepted can be connected to; what is refused
// is refused as invalid; and neither the error nor the node's name has the password.
func FuzzURL(f *testing.F) {
	for _, seed := range [][5]string{
		{"valkey://", "ann", "", "", "host:7000/1"}, {"redis://", "", "", "", "host"}, {"valkeys://", "ann", "", "", "[::1]:7000"}, {"valkeys://", "ann", "", "", "host?ca=/nowhere"},
		{"rediss://", "", "", "", "host?cert=x&key=y"}, {"unix://", "", "", "", "/run/valkey.sock?db=2"}, {"valkey://", "ann", "", "", "host?passwordfile=/nowhere"},
		{"valkey://", "ann", "", "", ""}, {"unix://", "ann", "", "", "host/run/x"},
		{"valkey://", "ann", "@", "/", "host"}, {"valkey://", "ann", ":", "@x", "host"}, {"valkey://", "ann", "/", "#", "host"}, {"valkey://", "", "?", "&", "host"},
		{"valkey://", "ann", "%", "%41", "host"}, {"valkey://", "ann", "%2f", "%40", "host"}, {"valkey://", "", "[", "]", ":7000"}, {"valkey://", "ann", " ", "\n", "host"},
		{"valkey://", "ann", "", "", "host:port"}, {"valkey://", "ann", "", "", "host:1/x"}, {"valkey://", "ann", "", "", "host?%zz"},
		{"valkey://", "ann", "", "", "host#1"}, {"valkey://", "ann", "", "", "host?db=1"}, {"valkey://", "ann", "", "", "host?ca=a&ca=b"}, {"valkey://", "ann", "", "", "host?tls=no"},
		{"://", "", "", "", "host"}, {"", "", "", "", "host"}, {"ftp://", "", "", "", "host"}, {"sword:", "", "", "", "host"}, {"valkey:", "", "", "", "host"}, {"valkey:/", "", "", "", "host"},
		{"valkey://", "ann", "é", "\xff", "host"}, {"valkey://", "", "", "", "host:65535/15"}, {"valkey://", "", "", "", "h%41"}, {"valkey://", "", "", "", "[fe80::1%25eth0]:1"},
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
			if server, err := transport.ParseURL(scheme + url.UserPassword(user, password).String() + "@" + rest); err != nil || server.Option.Password != password {
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

// FuzzServer lets a node do everything that it can do, on a connection on which
// anything is replied. Nothing panics, and no error has the password, though a
// server may repeat it.
func FuzzServer(f *testing.F) {
	const one, two, three = "$1\r\n1\r\n", "$1\r\n2\r\n", "$1\r\n3\r\n"
	info := fmt.Sprintf("$%d\r\n%s\r\n", len(replytest.Info()), replytest.Info())
	// A server with the mark of what it is now, and its replies to the scripts.
	marked, loaded := ":1\r\n*7\r\n"+one+"$7\r\n4567def\r\n$4\r\n1000\r\n"+one+"$3\r\na b\r\n"+one+"$-1\r\n"+info+"$0\r\n\r\n*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*0\r\n", ""
	for _, s := range command.Operations {
		loaded += "+" + s.SHA + "\r\n"
	}
	for _, s := range []string{
		":7\r\n", "-NOSCRIPT x\r\n", "-ERR swordfish\r\n", "-NOPERM swordfish\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\nh\r\n:250\r\n*2\r\n$1\r\n7\r\n" + one,
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\nh\r\n:250\r\n*2\r\n$1\r\n7\r\n" + two, // a newer format
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$-1\r\n:-2\r\n*2\r\n$-1\r\n$-1\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*0\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*0\r\n", // fewer results than commands
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*1\r\n" + info, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\nh\r\n:250\r\n",
		"+OK\r\n-NOPERM swordfish\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT x\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "*4\r\n" + one + two + "$8\r\nadmitted\r\n" + "$7\r\n4567def\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "%1\r\n" + one + "$3\r\n-12\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "%1\r\n$4\r\n4096\r\n" + one, // no stripe
		"*2\r\n$1\r\n0\r\n*2\r\n$9\r\nfenlock:a\r\n$9\r\nfenlock:b\r\n" + one + ":1\r\n*2\r\n" + two + "$-1\r\n$-1\r\n:-2\r\n*2\r\n" + three + one,
		marked + "+admitted\r\n" + loaded, marked + "+format 2\r\n", marked + "+restarted\r\n" + loaded, marked + "+admitted\r\n",
		":1\r\n*7\r\n" + one + "$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n" + info + "$0\r\n\r\n*5\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n*0\r\n:5\r\n",
		info, "_\r\n", "*0\r\n", "",
	} {
		for what := range byte(9) {
			f.Add(what, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, what byte, input []byte) {
		const secret = "swordfish"
		nobody, err := Open("valkey://host")
		if err != nil {
			t.Fatal(err)
		}
		defer nobody.Close()
		replies := &replier{builder: nobody.conn.B(), rest: slices.Concat([]byte(info+"*2\r\n$4\r\n1000\r\n$-1\r\n"), input)} // it is looked at first
		n := newNode(command.Errors{Name: "valkey://host", Secrets: command.NewSecrets(secret)}, nobody.keys, transport.Over(replies))
		defer n.Close()
		n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second, Warn: func(_ node.Node, message string) {
			if strings.Contains(message, secret) {
				t.Errorf("the password is in the warning %q", message)
			}
		}})
		ctx, r := context.Background(), node.Request{Name: "a", Holder: "h", TTL: time.Second, Token: 1}
		var answer node.Answer
		switch what % 9 {
		default:
			r.Op = node.Acquire + node.Op(what%9)
			answer, err = n.Do(ctx, r)
			if r.Op == node.Release && answer.Register != 0 {
				t.Errorf("%q: a release with a register: %+v", input, answer)
			}
		case 5:
			var l node.Lease
			if l, err = n.Inspect(ctx, "a"); err == nil {
				checkLease(t, input, l)
			}
		case 6:
			err = n.List(ctx, "", func(l node.Lease) bool { checkLease(t, input, l); return true })
		case 7:
			var r node.Registers
			if r, err = n.Registers(ctx); err == nil {
				checkRegisters(t, input, r)
			}
		case 8:
			server, err := n.voting.Look(ctx)
			if err != nil {
				t.Fatal(err)
			}
			detail, err := n.voting.Admit(ctx, server.RunID)
			said := detail + fmt.Sprint(err)
			if strings.Contains(said, secret) || detail != "" && err != nil || err != nil && !errors.Is(err, fenlock.ErrMisconfigured) {
				t.Errorf("%q: the admission said %q, %v", input, detail, err)
			}
			if detail == "" && err == nil && (!replies.admitted || replies.loaded != len(command.Operations)) {
				t.Errorf("%q: admitted, and not marked, or without the scripts", input)
			}
			if strings.HasPrefix(string(input), marked+"+admitted\r\n"+loaded) && (detail != "" || err != nil) {
				t.Errorf("%q: %s, %v", input, detail, err)
			}
		}
		if strings.Contains(answer.Detail, secret) {
			t.Errorf("%q: the password is in %q", input, answer.Detail)
		}
		if what%9 < 5 {
			replytest.CheckAnswer(t, input, answer, false, err)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), n.String())) {
			t.Errorf("%q: the error %v", input, err)
		}
	})
}

func checkLease(t *testing.T, input []byte, l node.Lease) {
	t.Helper()
	if l.Remaining < 0 || l.Register > fence.MaxToken {
		t.Errorf("%q: the lease %+v", input, l)
	}
}

func checkRegisters(t *testing.T, input []byte, r node.Registers) {
	t.Helper()
	if r.Server == "" || r.Memory == "" || r.MaxTTL < 0 {
		t.Errorf("%q: the registers %+v", input, r)
	}
	for stripe, token := range r.Tokens {
		if stripe < 0 || stripe >= node.Stripes || !token.Valid() {
			t.Errorf("%q: the register %d is %d", input, stripe, token)
		}
	}
}

// replier is a client on whose connection anything may come.
type replier struct {
	valkey.Client
	builder  valkey.Builder
	rest     []byte
	count    int
	admitted bool // the script that marks a server said that it did
	loaded   int  // so many scripts
}

func (r *replier) B() valkey.Builder { return r.builder }

func (r *replier) Close() {}

func (r *replier) Do(_ context.Context, sent valkey.Completed) valkey.ValkeyResult {
	said, words := r.next(), sent.Commands()
	text, err := said.ToString()
	switch {
	case err == nil && words[0] == "EVAL" && strings.HasPrefix(words[1], "-- admit:") && text == "admitted":
		r.admitted = true
	case err == nil && words[0] == "SCRIPT" && slices.ContainsFunc(command.Operations, func(s *command.Script) bool { return s.SHA == text }):
		r.loaded++
	}
	return said
}

func (r *replier) DoMulti(_ context.Context, commands ...valkey.Completed) (all []valkey.ValkeyResult) {
	for range commands {
		all = append(all, r.next())
	}
	return all
}

// next replies. A server that never ends is cut off.
func (r *replier) next() valkey.ValkeyResult {
	if r.count++; len(r.rest) == 0 || r.count > 100 {
		return valkey.NewResult(valkey.ValkeyMessage{}, errors.New("the connection is closed"))
	}
	var m valkey.ValkeyMessage
	m, r.rest = replytest.Message(r.rest)
	return replytest.Result(m)
}
