package valkeynode_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// setPassword changes the password of the user of the tests, and ends all connections.
func setPassword(t *testing.T, s *testserver.Server, password string) {
	t.Helper()
	s.Do(append([]string{"ACL", "SETUSER", aclUser, "reset", "on", ">" + password},
		permissions(t, valkeynode.DefaultPrefix)...)...)
	s.Do("CLIENT", "KILL", "TYPE", "normal")
}

// deniedFor waits until the node refuses a request for a reason, which it says without a
// password.
func deniedFor(t *testing.T, n node.Node, says string) {
	t.Helper()
	eventually(t, func() error {
		_, err := n.Do(bounded(t), as(node.Acquire, request("refused", "one")))
		if err == nil || !strings.Contains(err.Error(), says) {
			return fmt.Errorf("%w; want %q", err, says)
		}
		if strings.Contains(err.Error(), "secret-") {
			t.Fatalf("a password is in %q", err)
		}
		return nil
	})
}

func TestPasswordFile(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		s.MarkAdmitted("fenlock:", groupTTL)
		file := filepath.Join(t.TempDir(), "a file&?")
		write := func(password string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		where := strings.Replace(s.URL(), "://", "://"+aclUser+"@", 1) + "?passwordfile=" + url.QueryEscape(file)
		for _, c := range []struct{ url, says string }{
			{where, "a file&? does not exist"},
			{strings.Replace(where, "@", ":secret-0@", 1), "a password and a passwordfile"},
			{s.URL() + "?passwordfile=", "passwordfile is empty"},
		} {
			if n, err := valkeynode.Open(c.url); !errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), c.says) ||
				strings.Contains(err.Error(), "secret-0") {
				t.Errorf("%v, %v; want %q", n, err, c.says)
			}
		}
		write("secret-one")
		setPassword(t, s, "secret-one")
		n := joined(t, where, groupTTL)
		granted(t, n, "before")

		// Another one, while the program runs.
		write("secret-two")
		setPassword(t, s, "secret-two")
		acquire(t, n, request("after", "one"))

		// What is wrong with it later is said, and passes.
		setPassword(t, s, "secret-three")
		deniedFor(t, n, "the user or the password is wrong")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		deniedFor(t, n, "no credentials: misconfigured: passwordfile: "+file+" does not exist")
		write("secret-three")
		acquire(t, n, request("mended", "one"))

		// Without a user it is the default user's.
		s.Do("CONFIG", "SET", "requirepass", "secret-three")
		s.Do("CLIENT", "KILL", "TYPE", "normal")
		acquire(t, joined(t, s.URL()+"?passwordfile="+url.QueryEscape(file), groupTTL), request("default", "one"))
	})
}

func TestWithCredentials(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		s.MarkAdmitted("fenlock:", groupTTL)
		var asked atomic.Int64
		var answer atomic.Pointer[func(context.Context) (string, string, error)]
		say := func(f func(context.Context) (string, string, error)) { answer.Store(&f) }
		with := valkeynode.WithCredentials(func(ctx context.Context) (string, string, error) {
			asked.Add(1)
			return (*answer.Load())(ctx)
		})
		password := func(p string) {
			say(func(context.Context) (string, string, error) { return aclUser, p, nil })
		}
		for _, u := range []string{strings.Replace(s.URL(), "://", "://:secret-0@", 1),
			s.URL() + "?passwordfile=" + url.QueryEscape(os.Args[0])} {
			if n, err := valkeynode.Open(u, with); !errors.Is(err, fenlock.ErrInvalid) ||
				strings.Contains(err.Error(), "secret-0") {
				t.Errorf("%v, %v; want ErrInvalid", n, err)
			}
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("asked %d times before there was a connection", n)
		}
		password("secret-one")
		setPassword(t, s, "secret-one")
		n := joined(t, s.URL(), groupTTL, with)
		granted(t, n, "before")
		granted(t, n, "more")
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times for one connection", n)
		}
		password("secret-two")
		setPassword(t, s, "secret-two")
		acquire(t, n, request("after", "one"))

		reason := errors.New("the vault is sealed")
		say(func(context.Context) (string, string, error) { return "", "", reason })
		setPassword(t, s, "secret-two")
		deniedFor(t, n, "no credentials: "+reason.Error())
		password("secret-two")
		acquire(t, n, request("mended", "one"))

		// One that hangs does not hold up others.
		entered := make(chan struct{}, 100)
		say(func(ctx context.Context) (string, string, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return "", "", ctx.Err()
		})
		setPassword(t, s, "secret-two")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				n.Do(ctx, as(node.Acquire, request("hanging", "one")))
			}
		}()
		<-entered
		cancel()
		<-ended
		n.Close() // returns
	})
}

// A server or a proxy that does not know a command may repeat its arguments.
func TestCredentialsAreKeptOutOfErrors(t *testing.T) {
	repeat := []byte("-REFUSED HELLO 3 AUTH " + aclUser + " secret-that-is-repeated\r\n")
	l := valkeynode.Serve(t, func() func([]string) []byte { return func([]string) []byte { return repeat } })
	n := joined(t, "valkey://"+l.Addr().String(), groupTTL,
		valkeynode.WithCredentials(func(context.Context) (string, string, error) {
			return aclUser, "secret-that-is-repeated", nil
		}))
	deniedFor(t, n, "what it says has the password in it")
}

func TestGuardWithCredentials(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		s.Do("ACL", "SETUSER", aclUser, "on", ">secret-one", "~order", "~fenlock-token:order", "+evalsha", "+eval", "+get",
			"+set")
		g, err := valkeynode.OpenGuard(s.URL(),
			valkeynode.WithCredentials(func(context.Context) (string, string, error) { return aclUser, "secret-one", nil }))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if err := g.Set(bounded(t), "order", "value", 1); err != nil {
			t.Error(err)
		}
		if g, err := valkeynode.OpenGuard(s.URL(), valkeynode.WithPrefix("x")); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%v, %v; want ErrInvalid: a guard has no prefix", g, err)
		}
	})
}

// A client's certificate that was renewed is used by the next connection.
func TestCertificatesAreReadAnew(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.StartTLS(t, kind, "tls-auth-clients yes")
		other := testserver.StartTLS(t, kind) // whose certificate this server does not know
		s.MarkAdmitted("fenlock:", groupTTL)
		dir := t.TempDir()
		install := func(from *testserver.Server) (cert, key string) {
			t.Helper()
			cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
			for to, file := range map[string]string{cert: from.CertFile, key: from.KeyFile} {
				text, err := os.ReadFile(file)
				if err == nil {
					err = os.WriteFile(to, text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return cert, key
		}
		cert, key := install(other)
		n := joined(t, s.URL()+"?"+url.Values{"ca": {s.CAFile}, "cert": {cert}, "key": {key}}.Encode(), groupTTL)
		deniedFor(t, n, "refuse")
		install(s)
		acquire(t, n, request("renewed", "one"))
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		s.Do("CLIENT", "KILL", "TYPE", "normal")
		deniedFor(t, n, "cert and key: ")
		install(s)
		acquire(t, n, request("mended", "one"))
	})
}
