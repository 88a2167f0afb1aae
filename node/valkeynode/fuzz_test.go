package valkeynode

import (
	"bytes"
	"context"
	"encoding/binary"
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
	"github.com/valkey-io/valkey-go"
)

// FuzzURL opens nodes at whatever URL somebody could write, a password that
// nobody has escaped in it. What is accepted can be connected to; what is refused
// is refused as invalid; and neither the error nor the node's name has the password.
func FuzzURL(f *testing.F) {
	for _, seed := range [][5]string{
		{"valkey://", "ann", "", "", "host:7000/1"}, {"redis://", "", "", "", "host"}, {"valkeys://", "ann", "", "", "[::1]:7000"}, {"valkeys://", "ann", "", "", "host?ca=/nowhere"},
		{"rediss://", "", "", "", "host?cert=x&key=y"}, {"unix://", "", "", "", "/run/valkey.sock?db=2"},
		{"valkey://", "ann", "@", "/", "host"}, {"valkey://", "ann", ":", "@x", "host"}, {"valkey://", "ann", "/", "#", "host"}, {"valkey://", "", "?", "&", "host"},
		{"valkey://", "ann", "%", "%41", "host"}, {"valkey://", "ann", "%2f", "%40", "host"}, {"valkey://", "", "[", "]", ":7000"}, {"valkey://", "ann", " ", "\n", "host"},
		{"valkey://", "ann", "", "", "host:port"}, {"valkey://", "ann", "", "", "host:1/x"}, {"valkey://", "ann", "", "", "host?%zz"},
		{"valkey://", "ann", "", "", "host#1"}, {"valkey://", "ann", "", "", "host?db=1"}, {"valkey://", "ann", "", "", "host?ca=a&ca=b"}, {"valkey://", "ann", "", "", "host?tls=no"},
		{"://", "", "", "", "host"}, {"", "", "", "", "host"}, {"ftp://", "", "", "", "host"}, {"sword:", "", "", "", "host"}, {"valkey:", "", "", "", "host"}, {"valkey:/", "", "", "", "host"},
		{"valkey://", "ann", "é", "\xff", "host"}, {"valkey://", "", "", "", "host:65535/15"}, {"valkey://", "", "", "", "h%41"}, {"valkey://", "", "", "", "[fe80::1%25eth0]:1"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
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
		if n != nil && plain && n.secret != password {
			t.Errorf("the password %q was read as %q", password, n.secret)
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
		for _, file := range slices.Concat(query["ca"], query["cert"], query["key"]) {
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
	opt, name, err := parseURL(raw)
	if err != nil || name != n.String() {
		t.Fatalf("%q: the node is called %q; the URL says %q, %v", raw, n, name, err)
	}
	if strings.Contains(name, secret) {
		t.Errorf("Open(%q): the password is in the name %q", raw, name)
	}
	if opt.TLSConfig != nil && opt.TLSConfig.InsecureSkipVerify || (opt.TLSConfig != nil) != (strings.HasPrefix(name, "valkeys://") || strings.HasPrefix(name, "rediss://")) {
		t.Errorf("%q: TLS %+v for the node %s", raw, opt.TLSConfig, name)
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

// FuzzReply decodes whatever a server, or what pretends to be one, could reply to a
// script: an error, or an answer that the Locker can compute with.
func FuzzReply(f *testing.F) {
	const holder = "0123456789abcdef0123456789abcdef:label"
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	for _, s := range []string{
		":7\r\n", ":0\r\n", ":9007199254740991\r\n", "*1\r\n:7\r\n", "*1\r\n$1\r\n7\r\n", bulk("lost"), bulk("rejoining"), "+lost\r\n", bulk("maxttl 100"),
		"*4\r\n" + bulk(holder) + ":250\r\n:3\r\n:1732161439123456\r\n", "*4\r\n$-1\r\n:-2\r\n:0\r\n:1\r\n", "*4\r\n" + bulk("next:"+holder) + ":-1\r\n:0\r\n:1\r\n",
		"*4\r\n:1\r\n:9223372036854775807\r\n:9223372036854775807\r\n:-9223372036854775808\r\n", "*4\r\n*1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n",
		"*0\r\n", "*1\r\n*0\r\n", "*1\r\n_\r\n", "*1\r\n+x\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(9999999999999999999999\r\n", "=7\r\ntxt:abc\r\n",
		"%1\r\n+a\r\n:1\r\n", "~1\r\n:7\r\n", "-ERR x\r\n", "-NOSCRIPT x\r\n", "!5\r\nERR x\r\n", "-", "", ":\r\n", "*2\r\n:1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		reply, _ := message(input)
		answer, again, err := parse(result(reply).ToMessage())
		checkAnswer(t, input, answer, again, err)
		if reply.Error() == nil && err == nil && !again {
			// Each kind of reply stands for one kind of answer.
			values, _ := reply.ToArray()
			want := map[bool]node.Status{reply.IsInt64(): node.Granted, len(values) == 1: node.Outrun, len(values) == 4: node.Held, reply.IsString(): node.Lost}[true]
			if answer.Status != want {
				t.Errorf("%q was read as %+v", input, answer)
			}
		}
	})
}

func checkAnswer(t *testing.T, input []byte, a node.Answer, again bool, err error) {
	t.Helper()
	if (err != nil || again) && a.Status != 0 && err == nil {
		t.Errorf("%q: %+v, and again", input, a)
	}
	if err != nil || again {
		return
	}
	if a.Status != node.Granted && a.Status != node.Held && a.Status != node.Outrun && a.Status != node.Lost && a.Status != node.Rejoining {
		t.Errorf("%q: %+v has no status", input, a)
	}
	if a.Register > fence.MaxToken || a.Register != 0 && a.Status != node.Granted && a.Status != node.Outrun {
		t.Errorf("%q: %+v has no register that could be", input, a)
	}
	if a.Remaining < 0 || a.Remaining > mostRemaining || a.Ahead < 0 || a.Ahead > 10_000 || a.Clock < 0 || a.Clock > mostClock*time.Microsecond {
		t.Errorf("%q: %+v cannot be computed with", input, a)
	}
	if strings.Contains(a.HeldBy, "0123456789abcdef") {
		t.Errorf("%q: the holder's identity is in %+v", input, a)
	}
}

// FuzzServer lets a node do everything that it can do, on a connection on which
// anything is replied. Nothing panics, and no error has the password, though a
// server may repeat it.
func FuzzServer(f *testing.F) {
	const one, two, three = "$1\r\n1\r\n", "$1\r\n2\r\n", "$1\r\n3\r\n"
	info := fmt.Sprintf("$%d\r\n%s\r\n", len(infoWith()), infoWith())
	// A server with the mark of what it is now, and its replies to the scripts.
	marked, loaded := ":1\r\n*5\r\n"+one+"$7\r\n4567def\r\n$3\r\n100\r\n"+one+"$3\r\na b\r\n"+info+"$0\r\n\r\n*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*0\r\n", ""
	for _, s := range operations {
		loaded += "+" + s.sha + "\r\n"
	}
	for _, s := range []string{
		":7\r\n", "-NOSCRIPT x\r\n", "-ERR swordfish\r\n", "-NOPERM swordfish\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\nh\r\n:250\r\n$1\r\n7\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$-1\r\n:-2\r\n$-1\r\n",
		"+OK\r\n-NOPERM swordfish\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT x\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "*4\r\n" + one + two + "$8\r\nadmitted\r\n" + "$7\r\n4567def\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "%1\r\n" + one + "$3\r\n-12\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "%1\r\n$4\r\n4096\r\n" + one, // no stripe
		"*2\r\n$1\r\n0\r\n*2\r\n$9\r\nfenlock:a\r\n$9\r\nfenlock:b\r\n" + one + ":1\r\n" + two + "$-1\r\n:-2\r\n" + three,
		marked + "+admitted\r\n" + loaded, marked + "+restarted\r\n" + loaded, marked + "+admitted\r\n",
		":1\r\n*5\r\n" + one + "$-1\r\n$-1\r\n$-1\r\n$-1\r\n" + info + "$0\r\n\r\n*5\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n*0\r\n:5\r\n",
		info, "_\r\n", "*0\r\n", "",
	} {
		for what := range byte(9) {
			f.Add(what, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, what byte, input []byte) {
		const secret = "swordfish"
		n, err := Open("valkey://ann:" + secret + "@host")
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		replies := &replier{Client: n.client, rest: input}
		n.client = replies
		n.server.Store(&server{}) // what it is was looked at
		n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second, Warn: func(_ node.Node, message string) {
			if strings.Contains(message, secret) {
				t.Errorf("the password is in the warning %q", message)
			}
		}})
		n.out = &absence{until: time.Now().Add(time.Hour), detail: "out"} // its admission is tried below
		ctx, r := context.Background(), node.Request{Name: "a", Holder: "h", TTL: time.Second, Token: 1}
		var answer node.Answer
		switch what % 9 {
		case 0:
			r.Op = node.Acquire
			answer, err = n.Do(ctx, r)
		case 1:
			r.Op = node.Confirm
			answer, err = n.Do(ctx, r)
		case 2:
			r.Op = node.Extend
			answer, err = n.Do(ctx, r)
		case 3:
			r.Op = node.Release
			answer, err = n.Do(ctx, r)
			if answer.Register != 0 {
				t.Errorf("%q: a release with a register: %+v", input, answer)
			}
		case 4:
			answer, err = n.Do(ctx, node.Request{Op: node.ForceRelease, Name: "a", Token: 1})
		case 5:
			var l node.Lease
			if l, err = n.Inspect(ctx, "a"); err == nil {
				checkLease(t, input, l)
			}
		case 6:
			err = n.List(ctx, func(l node.Lease) bool { checkLease(t, input, l); return true })
		case 7:
			var r node.Registers
			if r, err = n.Registers(ctx); err == nil {
				checkRegisters(t, input, r)
			}
		case 8:
			detail, err := n.admission(ctx, *n.group)
			said := detail + fmt.Sprint(err)
			if strings.Contains(said, secret) || detail != "" && err != nil || err != nil && !errors.Is(err, fenlock.ErrMisconfigured) {
				t.Errorf("%q: the admission said %q, %v", input, detail, err)
			}
			if detail == "" && err == nil && (!replies.admitted || replies.loaded != len(operations)) {
				t.Errorf("%q: admitted, and not marked, or without the scripts", input)
			}
			if strings.HasPrefix(string(input), marked+"+admitted\r\n"+loaded) && (detail != "" || err != nil) {
				t.Errorf("%q: %s, %v", input, detail, err)
			}
		}
		if what%9 < 5 {
			checkAnswer(t, input, answer, false, err)
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

// FuzzInfo reads whatever a server could say of itself. One that passes is what a
// node must be, by a reading of its own words line by line.
func FuzzInfo(f *testing.F) {
	for _, change := range [][]string{
		nil, {"server_mode", "-", "redis_mode", "standalone"}, {"redis_version", "6.2.14"}, {"server_mode", "sentinel", "role", "-"}, {"cluster_enabled", "1"}, {"role", "slave"},
		{"maxmemory", "1000000", "maxmemory_policy", "allkeys-lru"}, {"maxmemory", "1000000"}, {"run_id", "-"}, {"master_replid", ""}, {"uptime_in_seconds", "-1"},
		{"uptime_in_seconds", "9000000000"}, {"second_repl_offset", "77"}, {"cmdstat_script|flush", "calls=1"}, {"cmdstat_script|load", "calls=1"}, {"redis_version", "7"}, {"redis_version", "+7.0"},
	} {
		f.Add(infoWith(change...), "", false, uint16(30))
		f.Add(infoWith(change...), "4567def", true, uint16(0))
	}
	for _, text := range []string{"", ":", "\n", "role:master\r\nrole:slave\r\n", "role : master", "\xff:\xff"} {
		f.Add(text, "x", true, uint16(1))
	}
	f.Fuzz(func(t *testing.T, text, marked string, loaded bool, seconds uint16) {
		n, err := parseInfo(text)
		if err == nil {
			err = n.check()
		}
		says := map[string]string{}
		for _, line := range strings.Split(text, "\n") {
			if i := strings.IndexByte(line, ':'); i >= 0 {
				says[line[:i]] = strings.TrimRight(line[i+1:], "\r")
			}
		}
		if err != nil {
			if !errors.Is(err, fenlock.ErrMisconfigured) {
				t.Errorf("%q: %v", text, err)
			}
			if says["role"] == "master" && says["run_id"] == "r" && says["master_replid"] == "m" && says["redis_version"] == "7.2.4" && says["uptime_in_seconds"] == "1" &&
				says["maxmemory"] == "" && says["redis_mode"] == "" && says["server_mode"] == "" && says["cluster_enabled"] == "" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		major, _ := strconv.Atoi(strings.Split(says["redis_version"], ".")[0])
		memory, _ := strconv.ParseUint(says["maxmemory"], 10, 64)
		switch {
		case says["role"] != "master", says["run_id"] == "" || says["run_id"] != n.runID, says["master_replid"] == "" || says["master_replid"] != n.replID,
			says["server_mode"] == "cluster", says["server_mode"] == "sentinel", says["server_mode"] == "" && (says["redis_mode"] == "cluster" || says["redis_mode"] == "sentinel"),
			says["cluster_enabled"] == "1", major < 7, memory > 0 && says["maxmemory_policy"] != "noeviction":
			t.Errorf("%q was accepted as %+v", text, n)
		}
		up, err := strconv.ParseInt(says["uptime_in_seconds"], 10, 64)
		const centuries = 9e9 // in seconds; more is more than a Duration
		if err != nil || max(up, -up) < centuries && int64(n.uptime/time.Second) != up {
			t.Errorf("%q: an uptime of %v, %v", text, n.uptime, err)
		}

		// Who has no mark of what it is now is not admitted as if it had forgotten
		// nothing, and whoever may have forgotten leases waits until they are gone.
		n.marked, n.scriptsLoaded = marked, loaded
		longest := time.Duration(seconds) * time.Second
		v, left := decide(n, longest)
		switch {
		case v == admit && marked != n.replID,
			v != admit && marked == n.replID,
			v == rebuildFirst && (n.uptime < longest || loaded || n.promoted || n.scriptsFlushed),
			v == waitRun && (left <= 0 || left+n.uptime < longest):
			t.Errorf("%q, marked %q, loaded %v, longest lease %v: verdict %d, %v left", text, marked, loaded, longest, v, left)
		}
	})
}

// replier is a client on whose connection anything may come.
type replier struct {
	valkey.Client
	rest     []byte
	count    int
	admitted bool // the script that marks a server said that it did
	loaded   int  // so many scripts
}

func (r *replier) Do(_ context.Context, command valkey.Completed) valkey.ValkeyResult {
	said, words := r.next(), command.Commands()
	text, err := said.ToString()
	switch {
	case err == nil && words[0] == "EVAL" && words[1] == admitText && text == "admitted":
		r.admitted = true
	case err == nil && words[0] == "SCRIPT" && slices.ContainsFunc(operations, func(s *script) bool { return s.sha == text }):
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
	m, r.rest = message(r.rest)
	return result(m)
}

func result(m valkey.ValkeyMessage) valkey.ValkeyResult { return valkey.NewResult(m, nil) }

// message reads a reply in RESP2 or RESP3, as far as it can be read, and returns it
// and the rest. The library makes messages of nothing but a connection, or of what
// it keeps in its cache: so it gets that.
func message(input []byte) (m valkey.ValkeyMessage, rest []byte) {
	cached, rest := cacheForm(make([]byte, 7), input, 4)
	if err := m.CacheUnmarshalView(cached); err != nil {
		panic(err)
	}
	return m, rest
}

func cacheForm(to, input []byte, depth int) (cached, rest []byte) {
	kind, line := byte('_'), ""
	if len(input) > 0 {
		end, next := bytes.IndexByte(input, '\n'), 0
		if next = end + 1; end < 0 {
			end, next = len(input), len(input)
		}
		kind, line, rest = input[0], strings.TrimRight(string(input[1:max(end, 1)]), "\r"), input[next:]
	}
	number, _ := strconv.ParseInt(line, 10, 64)
	head := func(kind byte, n int64) { to = binary.BigEndian.AppendUint64(append(to, kind), uint64(n)) }
	switch {
	case (kind == '$' || kind == '*') && number < 0, kind == '_':
		head('_', 0)
	case kind == ':':
		head(':', number)
	case kind == '#':
		head('#', map[string]int64{"t": 1}[line])
	case kind == '*', kind == '%', kind == '~':
		count := min(max(number, 0), 20)
		if depth == 0 {
			count = 0
		}
		if kind == '%' {
			count *= 2
		}
		head(kind, count)
		for range count {
			to, rest = cacheForm(to, rest, depth-1)
		}
	case kind == '$', kind == '!', kind == '=':
		size := int(min(max(number, 0), int64(len(rest))))
		head(kind, int64(size))
		to, rest = append(to, rest[:size]...), bytes.TrimPrefix(rest[size:], []byte("\r\n"))
	case kind == '+', kind == '-', kind == ',', kind == '(':
		head(kind, int64(len(line)))
		to = append(to, line...)
	default: // no reply
		head('+', int64(len(line)))
		to = append(to, line...)
	}
	return to, rest
}
