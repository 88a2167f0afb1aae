package valkeynode_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// refused checks that the node at a URL refuses every operation with an error
// that matches ErrMisconfigured, names the node and says what is wrong.
func refused(t *testing.T, url, name, says string) {
	t.Helper()
	n := joined(t, url, groupTTL)
	ctx := bounded(t)
	_, acquire := n.Do(ctx, as(node.Acquire, request("a", "one")))
	_, inspect := n.Inspect(ctx, "a")
	list := n.List(ctx, "", func(node.Lease) bool { return true })
	for op, err := range map[string]error{"acquire": acquire, "inspect": inspect, "list": list} {
		if !errors.Is(err, fenlock.ErrMisconfigured) {
			t.Errorf("%s: %v does not match ErrMisconfigured", op, err)
			continue
		}
		for _, want := range []string{name, says} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %q", op, want, err)
			}
		}
	}
	// With such nodes only, waiting is pointless: it is not ctx that ends it.
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, TTL: groupTTL, MaxTTL: groupTTL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(ctx, "a"); !errors.Is(err, fenlock.ErrMisconfigured) || !errors.Is(err, fenlock.ErrNoQuorum) {
		t.Errorf("Locker.Acquire: %v", err)
	}
}

func TestServersThatCannotBeNodes(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary := testserver.Start(t, kind, "databases 2")
		replica := testserver.Start(t, kind)
		follow(t, replica, primary)
		refused(t, replica.URL(), replica.Addr(), "replica")
		primary.Do("ACL", "SETUSER", "default", "+select")
		refused(t, primary.URL()+"/5", primary.Addr(), "database")
	})
}

// The password is not repeated, whatever it looks like, and whether it is right
// or not.
func TestWrongPassword(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind, "requirepass right-one")
		refused(t, s.URL(), s.Addr(), "password")
		for _, password := range []string{"wrong-secret", "wr@ng:s/e#c%r?et", "%41", "1"} {
			for _, user := range []string{"", "ann"} {
				raw := strings.Replace(s.URL(), "://", "://"+url.UserPassword(user, password).String()+"@", 1)
				n := joined(t, raw, groupTTL)
				_, err := n.Do(bounded(t), as(node.Acquire, request("a", "one")))
				if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), s.Addr()) {
					t.Errorf("user %q, password %q: %v", user, password, err)
				} else if text := strings.ReplaceAll(err.Error(), s.Addr(), ""); strings.Contains(text, password) {
					t.Errorf("the password %q is in %q", password, text)
				}
			}
		}
		// A password for a server that wants none, and the right one.
		open := testserver.Start(t, kind)
		refused(t, strings.Replace(open.URL(), "://", "://ann:needless@", 1), open.Addr(), "password")
		n := joined(t, strings.Replace(s.URL(), "://", "://:right-one@", 1), groupTTL)
		if a, err := n.Do(bounded(t), as(node.Acquire, request("a", "one"))); err != nil {
			t.Errorf("the right password: %+v, %v", a, err)
		}
	})
}

// One server under two addresses has one vote.
func TestSameServerTwice(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 2)
		for _, s := range servers {
			s.MarkAdmitted("fenlock:", groupTTL)
			s.Do("ACL", "SETUSER", "default", "+select")
		}
		url := servers[0].URL()
		for _, alias := range []string{strings.Replace(url, "127.0.0.1", "localhost", 1), url + "/1", url} {
			var nodes []node.Node
			for _, s := range servers {
				s.Do("HDEL", registersKey, "members") // of the group before
			}
			for _, u := range []string{url, alias, servers[1].URL()} {
				nodes = append(nodes, open(t, u))
			}
			for _, n := range nodes {
				if err := n.(node.Rejoiner).Join(node.Group{Nodes: nodes, MaxTTL: groupTTL}); err != nil {
					t.Fatal(err)
				}
			}
			r := request("a", "one")
			want(t, node.Granted)(nodes[0].Do(bounded(t), as(node.Acquire, r)))
			_, err := nodes[1].Do(bounded(t), as(node.Acquire, r))
			if !errors.Is(err, fenlock.ErrMisconfigured) ||
				!strings.Contains(err.Error(), "same server as the node "+nodes[0].String()) {
				t.Errorf("%s: %v", alias, err)
			}
			nodes[0].Do(bounded(t), as(node.Release, r))
		}
	})
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// unknownCommand is how servers before Redis 7 refuse a command: with its
// arguments.
func unknownCommand(args []string) string {
	text := fmt.Sprintf("-ERR unknown command `%s`, with args beginning with: ", args[0])
	for _, arg := range args[1:] {
		text += "`" + arg + "`, "
	}
	return text + "\r\n"
}

func TestOldRedis(t *testing.T) {
	const info = "redis_version:%s\r\nredis_mode:standalone\r\nrun_id:abc\r\nmaster_replid:def\r\nuptime_in_seconds:99\r\nrole:master\r\nsecond_repl_offset:-1\r\n"
	for version, hello := range map[string]string{
		"6.2.14": "%3\r\n$5\r\nproto\r\n:3\r\n$7\r\nversion\r\n$6\r\n6.2.14\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n",
		"5.0.7":  "",
	} {
		reply := func(args []string) []byte {
			switch strings.ToUpper(args[0]) {
			case "HELLO":
				if hello == "" {
					return []byte(unknownCommand(args))
				}
				return []byte(hello)
			case "INFO":
				return []byte(bulk(fmt.Sprintf(info, version)))
			}
			return []byte("+OK\r\n")
		}
		addr := valkeynode.Serve(t, func() func([]string) []byte { return reply }).Addr().String()
		refused(t, "redis://:secret@"+addr, addr, "version 7 or later")
	}
}
