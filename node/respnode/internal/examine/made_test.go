package examine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// made is a server that is made up: what it would answer, from a healthy one on.
type made struct {
	info      []string // name, value, ...
	stats     string
	registers [8]string // admitted, maxttl, durable, empty, format, members, noticed, candidate
	loaded    bool      // the scripts are
	settings  map[string]string
	noConfig  bool
	reached   Reached
	permit    command.Allowed
	unknown   error // whether the user may do all
	close     *Close
	maxTTL    time.Duration
}

// healthy is a server that has nothing wrong but that it is as it is installed.
func healthy() made {
	return made{
		info:      []string{"valkey_version", "8.0.10", "server_name", "valkey"},
		registers: [8]string{"4567def", "30000", "0", "", format, "a:1 b:1 c:1", "", "c"},
		loaded:    true,
		settings: map[string]string{
			"appendfsync": "everysec", "no-appendfsync-on-rewrite": "no", "aof-load-truncated": "no", "timeout": "0",
			"repl-backlog-ttl": "3600", "min-replicas-to-write": "0",
			"maxmemory": "0", "maxmemory-policy": "noeviction",
			"client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
		},
		reached: Reached{Address: "127.0.0.1", User: "default"},
		maxTTL:  30 * time.Second,
	}
}

// format is the one of this program: docs/valkey.md says which.
const format = "3"

// now is what the servers' clocks show.
var now = time.UnixMilli(1_800_000_000_000)

func (m made) server(t testing.TB) Server {
	t.Helper()
	keys, err := command.NewKeys("fenlock:")
	if err != nil {
		t.Fatal(err)
	}
	loaded, config := "*1\r\n:0\r\n", fmt.Sprintf("%%%d\r\n", len(m.settings))
	if m.loaded {
		loaded = "*1\r\n:1\r\n"
	}
	for name, value := range m.settings {
		config += bulk(name) + bulk(value)
	}
	if m.noConfig {
		config = "-NOPERM User u has no permissions to run the 'config|get' command\r\n"
	}
	registers := "*9\r\n" + bulk(m.registers[7]) // the candidate
	for _, value := range append(m.registers[:7:7], "") {
		registers += bulk(value)
	}
	var replies []resp.Reply
	for _, text := range []string{bulk(replytest.Info(m.info...)), bulk(m.stats), registers, loaded, config} {
		message, _ := replytest.Message([]byte(text))
		replies = append(replies, message)
	}
	looked, err := keys.ParseLooked(replies[:3], nil)
	if err == nil && !looked.Fragile() {
		err = looked.AddCloser(replies[3:], nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Server{Looked: looked, Reached: m.reached, MaxTTL: m.maxTTL, Now: now, Allowed: m.permit, CannotTell: m.unknown,
		Close: m.close}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// change is a server that differs from a healthy one.
func change(f func(m *made)) made {
	m := healthy()
	f(&m)
	return m
}

// find returns the finding of a check, and fails the test if there is none.
func find(t testing.TB, found []node.Finding, check string) node.Finding {
	t.Helper()
	i := slices.IndexFunc(found, func(f node.Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("there is no %q among %v", check, checks(found))
	}
	return found[i]
}

func checks(found []node.Finding) (names []string) {
	for _, f := range found {
		names = append(names, f.Check)
	}
	return names
}

// sentence fails the test unless a finding can be shown as it is.
func sentence(t testing.TB, f node.Finding) {
	t.Helper()
	for _, text := range []string{f.Reason, f.Advice} {
		if text != "" && (!strings.HasSuffix(text, ".") || strings.Contains(text, "%!") ||
			strings.ToUpper(text[:1]) != text[:1] && !strings.HasPrefix(text, "appendfsync") &&
				!strings.HasPrefix(text, "chmod")) {
			t.Errorf("%s: %q is no sentence", f.Check, text)
		}
	}
}
