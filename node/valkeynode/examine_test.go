package valkeynode_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

var closely = node.Look{MaxTTL: groupTTL, Thorough: true}

// found returns the checks that have found something, and the text of all.
func found(e node.Examination) (checks []string, text string) {
	for _, f := range e.Findings {
		checks = append(checks, f.Check)
		text += fmt.Sprintf("%s: %s %s\n", f.Check, f.Reason, f.Advice)
	}
	return checks, text
}

// sees checks that an examination has a finding, with a text in it.
func sees(t *testing.T, e node.Examination, check, says string) {
	t.Helper()
	checks, text := found(e)
	if !slices.Contains(checks, check) || !strings.Contains(text, says) {
		t.Errorf("found %s; want %s, with %q", text, check, says)
	}
}

// To look at a new server leaves it as it is: what it holds, what it would tell of itself, and when
// it votes.
func TestExamineChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for what, prepare := range map[string]func(s *testserver.Server){
			"new": func(*testserver.Server) {},
			"used": func(s *testserver.Server) {
				s.MarkAdmitted("fenlock:", groupTTL)
				granted(t, joined(t, s.URL(), groupTTL), "held")
				s.Do("PERSIST", "fenlock:held") // or it may end while it is looked at
			},
			"flushed": func(s *testserver.Server) {
				s.MarkAdmitted("fenlock:", groupTTL)
				granted(t, joined(t, s.URL(), groupTTL), "held")
				s.Do("FLUSHALL")
			},
		} {
			s := testserver.Start(t, kind)
			prepare(s)
			state := func() string {
				keys := strings.Fields(strings.Trim(s.Do("KEYS", "*"), "[]"))
				slices.Sort(keys)
				text := ""
				for _, key := range keys {
					text += key + " " + s.Do("DUMP", key) + "\n"
				}
				return text + s.Do("SCRIPT", "EXISTS", strings.Repeat("0", 40))
			}
			before, loaded := state(), infoOf(s, "cmdstat_script|load")
			n := open(t, s.URL())
			for _, look := range []node.Look{closely, {}, closely} {
				if e, err := n.Examine(bounded(t), look); err != nil || e.Server == "" || (what == "used") != e.Admitted {
					t.Errorf("%s: %+v, %v", what, e, err)
				}
			}
			if after := state(); after != before {
				t.Errorf("%s: the server has\n%s\nand had\n%s", what, after, before)
			}
			if now := infoOf(s, "cmdstat_script|load"); now != loaded {
				t.Errorf("%s: the server counts the loading of scripts as %q, and did as %q: admission goes by it", what, now,
					loaded)
			}
			for _, command := range []string{"hset", "hsetnx", "set", "del", "eval", "evalsha", "zadd", "zpopmin", "publish",
				"pexpire", "hdel", "zrem"} {
				if what == "new" && strings.Contains(infoOf(s, "cmdstat_"+command), "calls=1") {
					t.Errorf("%s was carried out: %s", command, infoOf(s, "cmdstat_"+command))
				}
			}
		}
	})
}

// A server that was restarted with all its data votes at once, unless it has denied a command
// since. So a client that only looks does not ask what it may not know.
func TestExamineIsNotDenied(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		readers, err := valkeynode.ReadPermissions(valkeynode.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		for what, rules := range map[string][]string{"looks": readers, "locks": permissions(t, valkeynode.DefaultPrefix)} {
			s := testserver.Start(t, kind, "appendonly yes", "appendfsync always", "aof-load-truncated no",
				fmt.Sprintf("user %s on >%s %s", aclUser, aclPassword, strings.Join(rules, " ")))
			acquire(t, joined(t, s.URL(), groupTTL), request("a", "one"))
			s.Kill()
			s.Restart()
			n := open(t, strings.Replace(s.URL(), "://", "://"+aclUser+":"+aclPassword+"@", 1))
			for _, look := range []node.Look{closely, {}} {
				e, err := n.Examine(bounded(t), look)
				if err != nil || e.Admitted || e.Wait != 0 || e.Rebuild || !strings.Contains(e.Why, "finds out") {
					t.Errorf("%s: %+v, %v", what, e, err)
				}
			}
			if denied := s.Info("errorstats", "errorstat_NOPERM"); denied != "" {
				t.Errorf("%s: the server has denied commands: %s", what, denied)
			}
			want(t, node.Granted)(joined(t, s.URL(), groupTTL).Do(bounded(t), as(node.Acquire, request("b", "one"))))
			// From now on it does not matter.
			e, err := n.Examine(bounded(t), closely)
			if err != nil || !e.Admitted {
				t.Errorf("%s, admitted: %+v, %v", what, e, err)
			}
			if checks, text := found(e); slices.Contains(checks, "permissions-unknown") != (what == "looks") ||
				slices.Contains(checks, "permissions") {
				t.Errorf("%s: found %s", what, text)
			}
		}
	})
}

func infoOf(s *testserver.Server, field string) string { return s.Info("commandstats", field) }

// Each word of the least permissions is missed by name, and with all of them nothing is.
func TestExaminePermissions(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind, "appendonly yes", "appendfsync always", "aof-load-truncated no")
		server.MarkAdmitted("fenlock:", groupTTL)
		all := permissions(t, valkeynode.DefaultPrefix)
		look := func(permissions []string) (node.Examination, error) {
			line := append([]string{"ACL", "SETUSER", aclUser, "reset", "on", ">" + aclPassword}, permissions...)
			if reply := server.Do(line...); reply != "OK" {
				t.Fatalf("%q: %s", line, reply)
			}
			n := open(t, strings.Replace(server.URL(), "://", "://"+aclUser+":"+aclPassword+"@", 1))
			return n.Examine(bounded(t), closely)
		}
		e, err := look(all)
		checks, text := found(e)
		if err != nil || !e.Admitted || slices.Contains(checks, "permissions") ||
			slices.Contains(checks, "permissions-more") || slices.Contains(checks, "crash") {
			t.Errorf("with all of them: %v, found %s", err, text)
		}
		for i, word := range all {
			e, err := look(slices.Delete(slices.Clone(all), i, i+1))
			checks, text := found(e)
			if strings.Contains(text, aclPassword) || strings.Contains(fmt.Sprint(err), aclPassword) {
				t.Errorf("without %s: the password is in %s %v", word, text, err)
			}
			refused := true
			switch word {
			case "+script|load": // asked for by admission only, and not tried: see permissions.go
				refused = false
				if slices.Contains(checks, "permissions") {
					t.Errorf("without %s: %s", word, text)
				}
			case "+info": // without which nothing is known
				sees(t, e, "permissions", "'info' command")
			case "+config|get":
				refused = false
				sees(t, e, "crash", "+config|get")
				if slices.Contains(checks, "permissions") {
					t.Errorf("without %s: %s", word, text)
				}
			case "+wait": // for replicas, of which there are none
				refused = false
				if slices.Contains(checks, "permissions") {
					t.Errorf("without %s: %s", word, text)
				}
			case "+multi", "+exec":
				refused = false
				sees(t, e, "permissions-unknown", word[1:])
			case "+subscribe":
				refused = false
				sees(t, e, "permissions", "ACL SETUSER lock-user +subscribe &fenlock-wake:*, and save it")
			default:
				sees(t, e, "permissions", word)
			}
			if errors.Is(err, fenlock.ErrMisconfigured) != refused {
				t.Errorf("without %s: %v", word, err)
			}
		}
		// The whole line is more than it needs.
		e, err = look([]string{"+@all", "~*", "&*"})
		if err != nil {
			t.Error(err)
		}
		sees(t, e, "permissions-more", `"+@all" on the keys "~*"`)
	})
}

// What keeps a server from voting is found, with what is known of it.
func TestExamineFaults(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		look := func(url string) (node.Examination, error) {
			t.Helper()
			return open(t, url).Examine(bounded(t), closely)
		}
		for _, c := range []struct {
			check, says string
			permanent   bool
			url         func() string
		}{
			{"password", "ACL SETUSER", true, func() string {
				s := testserver.Start(t, kind, "requirepass right-one")
				return strings.Replace(s.URL(), "://", "://"+url.UserPassword("", "wr@ng").String()+"@", 1)
			}},
			{"eviction", "allkeys-lru", true, func() string {
				return testserver.Start(t, kind, "maxmemory 50mb", "maxmemory-policy allkeys-lru").URL()
			}},
			{"replica", "Name the primary instead", true, func() string {
				s, primary := testserver.Start(t, kind), testserver.Start(t, kind)
				follow(t, s, primary)
				return s.URL()
			}},
			{"disabled-command", "ZPOPMIN", true,
				func() string { return testserver.Start(t, kind, `rename-command ZPOPMIN ""`).URL() }},
			{"misconfigured", "format 99", true, func() string {
				s := testserver.Start(t, kind)
				s.Do("HSET", registersKey, "format", "99")
				return s.URL()
			}},
			{"misconfigured", "wants TLS", true, func() string {
				return strings.Replace(testserver.StartTLS(t, kind).URL(), "s://", "://", 1)
			}},
			{"writes", "no memory left", false, func() string {
				s := testserver.Start(t, kind)
				s.Do("CONFIG", "SET", "maxmemory", "1")
				return s.URL()
			}},
			{"min-replicas", "CONFIG SET min-replicas-to-write 0", false,
				func() string { return testserver.Start(t, kind, "min-replicas-to-write 1").URL() }},
			{"down", "Nothing listens", false, func() string {
				s := testserver.Start(t, kind)
				s.Kill()
				return s.URL()
			}},
		} {
			at := c.url()
			e, err := look(at)
			sees(t, e, c.check, c.says)
			if err == nil || errors.Is(err, fenlock.ErrMisconfigured) != c.permanent || e.Admitted ||
				strings.Contains(fmt.Sprint(e, err), "wr@ng") {
				t.Errorf("%s: %+v, %v", c.check, e, err)
			}
			if e.Member == "" {
				t.Errorf("%s: it has no name in its group", c.check)
			}
		}
	})
}

// A server that hangs takes its time, and no more: it is told from one that is not there.
func TestExamineHungServer(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		n := open(t, s.URL())
		if _, err := n.Examine(bounded(t), closely); err != nil {
			t.Fatal(err)
		}
		s.Pause()
		fresh := open(t, s.URL())
		for what, n := range map[string]*valkeynode.Node{"connected": n, "not yet": fresh} {
			e, err := n.Examine(bounded(t), closely)
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fenlock.ErrMisconfigured) {
				t.Errorf("%s: %v", what, err)
			}
			sees(t, e, "hangs", "State T is stopped")
		}
		s.Resume()
		eventually(t, func() error { _, err := n.Examine(bounded(t), closely); return err })
	})
}

// What another program put where the locks are is found; what belongs there is not.
func TestExamineEntries(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, groupTTL)
		granted(t, n, "held")
		s.Do("SET", "fenlock:other", "a word", "EX", "60")
		s.Do("RPUSH", "fenlock:list", "a")
		s.Do("SET", "elsewhere", "no matter")
		s.Do("HSET", registersKey, "17", "abc", "18", "9007199254740000", "19", "1")
		e, err := n.Examine(bounded(t), closely)
		if err != nil {
			t.Fatal(err)
		}
		sees(t, e, "stray-key", `("fenlock:other")`)
		sees(t, e, "endless-key", `("fenlock:list")`)
		sees(t, e, "registers", "(17)")
		sees(t, e, "registers-large", "(18)")
		// A quick look does not look there.
		quick, err := n.Examine(bounded(t), node.Look{})
		if checks, _ := found(quick); err != nil || slices.Contains(checks, "stray-key") {
			t.Errorf("%v, %v", checks, err)
		}
		// With an empty prefix, any key may be a lock.
		allow(t, s, "")
		all := open(t, s.URL(), valkeynode.WithPrefix(""))
		if e, err := all.Examine(bounded(t), closely); err != nil {
			t.Error(err)
		} else if checks, _ := found(e); slices.Contains(checks, "stray-key") || slices.Contains(checks, "endless-key") {
			t.Errorf("with an empty prefix: %v", checks)
		}
	})
}

// However many keys a server has, a few thousand are looked at, a few hundred at a time.
func TestExamineIsBounded(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		s.Do("EVAL", "for i = 1, 40000 do redis.call('SET', (i % 2 == 0 and 'fenlock:' or 'x:') .. i, 'a') end", "0")
		e, err := open(t, s.URL()).Examine(bounded(t), closely)
		if err != nil {
			t.Fatal(err)
		}
		sees(t, e, "endless-key", "more")
		calls := func(command string) (n int) {
			fmt.Sscanf(infoOf(s, "cmdstat_"+command), "calls=%d", &n)
			return n
		}
		if scans, reads := calls("scan"), calls("getrange"); scans < 2 || scans > 50 || reads < 1000 || reads > 1150 {
			t.Errorf("%d pages, %d keys read", scans, reads)
		}
		if infoOf(s, "cmdstat_keys") != "" {
			t.Error("KEYS was sent")
		}
	})
}

// The clock is the server's, and the round trip is one.
func TestExamineClock(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		e, err := open(t, s.URL()).Examine(bounded(t), node.Look{})
		if err != nil || e.RoundTrip <= 0 || e.Clock.Store.Sub(e.Clock.Here.Round(0)).Abs() > e.RoundTrip+time.Millisecond ||
			e.Address != "127.0.0.1" {
			t.Errorf("%+v, %v", e, err)
		}
		if want := map[testserver.Kind]string{testserver.Valkey: "Valkey",
			testserver.Redis: "Redis"}[kind]; e.Product != want || e.Version == "" || e.Role != "primary" {
			t.Errorf("%+v", e)
		}
	})
}
