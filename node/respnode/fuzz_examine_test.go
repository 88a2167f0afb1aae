package respnode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// FuzzExamine looks at a server that replies anything. Nothing panics, nothing that is
// shown has the password, and all of it can be computed with.
func FuzzExamine(f *testing.F) {
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	clock := "*2\r\n" + bulk("1800000000") + bulk("1")
	looked := bulk(replytest.Info("used_memory", "1")) + bulk("") + "*9\r\n" + bulk("b") +
		bulk("4567def") + bulk("1000") + bulk("1") + bulk("a") + bulk("3") + bulk("c") + bulk("4567def 5") + bulk("2") +
		"*1\r\n:1\r\n%2\r\n" + bulk("appendfsync") + bulk("always") + bulk("client-output-buffer-limit") + bulk(
		"pubsub 1 2 3")
	multi := "+OK\r\n*0\r\n+OK\r\n-ERR wrong number of arguments\r\n" + strings.Repeat("+QUEUED\r\n", 26) +
		"-EXECABORT x\r\n"
	account := "%2\r\n" + bulk("flags") + "*1\r\n" + bulk("nopass") + bulk("commands") + bulk("+@all")
	page := "*2\r\n" + bulk("0") + "*1\r\n" + bulk("fenlock:a") + bulk("x") + ":-1\r\n" +
		"+OK\r\n+QUEUED\r\n*1\r\n*2\r\n" + bulk("5") + bulk("x")
	for _, s := range []string{
		"", clock, clock + clock + clock + looked, clock + clock + clock + looked + multi,
		clock + clock + clock + looked + multi + account + page,
		"-NOPERM swordfish\r\n", "-ERR swordfish\r\n" + looked, clock + clock + clock + "-NOPERM swordfish\r\n",
		"*2\r\n:-1\r\n:999999999999999\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		const secret = "swordfish"
		n, err := New(&replier{Lifetime: engine.NewLifetime(), rest: input},
			Server{Name: "valkey://host", Prefix: DefaultPrefix, Secrets: resp.NewSecrets(secret)})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		e, err := n.Examine(context.Background(), node.Look{MaxTTL: time.Second, Thorough: true})
		own := slices.ContainsFunc(e.Findings,
			func(f node.Finding) bool { return strings.Contains(f.Reason+f.Advice, secret) })
		if own || err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the password is in %v, %v", input, e.Findings, err)
		}
		if e.Wait < 0 || e.Wait > 366*24*time.Hour || e.Clock.Store.Year() > 2113 ||
			e.Admitted && err != nil && e.Server == "" {
			t.Errorf("%q: %+v", input, e)
		}
	})
}
