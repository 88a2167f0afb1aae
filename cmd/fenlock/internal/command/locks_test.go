//go:build linux || darwin || freebsd

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/admin"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, prefix, yes, no string }{
		{"a", "a", "a", "ab"},
		{"*", "", "anything/at\nall", ""},
		{"orders/*", "orders/", "orders/4/2", "order/4"},
		{"orders/", "orders/", "orders/4/2", "order/4"},
		{"*/orders/", "", "a/orders/4", "a/orders"},
		{"a?c", "a", "aéc", "ac"},
		{"a.c*", "a.c", "a.c", "abc"},
		{"*[x]", "", "y[x]", "yx"},
		{`a\*`, `a\`, `a\b`, `a*`},
		{"**", "", "x", ""},
	} {
		prefix, matches := compile(c.pattern)
		if prefix != c.prefix || !matches(c.yes) || c.no != "" && matches(c.no) {
			t.Errorf("%q: the prefix is %q, matches %q: %v, %q: %v", c.pattern, prefix, c.yes, matches(c.yes), c.no,
				matches(c.no))
		}
	}
}

// A client that can write to the nodes can write any name and label.
func TestNothingElseIsPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"grün 锁": "grün 锁", "\x1b[2J": `\x1b[2J`, "a\nb": `a\nb`, "\xff": `\xff`, "a\u202eb": `a\u202eb`, "\u0085": `\u0085`,
		`a"\b`: `a"\b`, "": "",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is printed as %s; want %s", text, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m00s",
		61 * time.Second: "1m01s",
		time.Hour:        "1h00m", 47*time.Hour + 59*time.Minute: "47h59m", 49 * time.Hour: "2d01h",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %s; want %s", d, got, want)
		}
	}
}

var (
	seenAt = time.Date(2026, 11, 22, 3, 0, 0, 0, time.Local)
	node1  = admin.Vote{Node: "n1", Holds: true, Leased: true, Label: "host/42", Left: 8100 * time.Millisecond}
	node2  = admin.Vote{Node: "n2", Holds: true, Leased: true, Label: "host/42", Left: 8 * time.Second}
	isHeld = admin.LockInfo{Name: "orders/42", State: admin.Held, Label: "host/42", Since: seenAt.Add(-time.Hour),
		Token: 17, Left: 8 * time.Second}
)

func TestDescribe(t *testing.T) {
	votes := func(l admin.LockInfo, votes ...admin.Vote) admin.LockInfo {
		l.Votes = votes
		return l
	}
	waiting := votes(isHeld, node1, node2, admin.Vote{Node: "n3", Err: errors.New("n3: connection refused")})
	waiting.Waiters, waiting.Waiting = []admin.WaiterInfo{{Label: "host/43", Waited: 65 * time.Second, Nodes: 2},
		{Waited: time.Second}}, 5
	for _, c := range []struct {
		lock admin.LockInfo
		want string
	}{
		{waiting, `orders/42 is held by host/42
  since  2026-11-22 02:00:00, 1h00m ago (by the holder's clock)
  token  17
  ends   in 8s, unless its holder extends it
  votes  2/3
    n1  has the lease, 8.1s left
    n2  has the lease, 8s left
    n3  no answer: connection refused
  5 waiting, in order
    1.  host/43  for 1m05s
    2.  -        for 1s
    and 3 more
`},
		{votes(admin.LockInfo{Name: "a\n", State: admin.Free}, admin.Vote{Node: "n1"}), `a\n is free
    n1  has no lease
  the queue is empty
`},
		{votes(admin.LockInfo{Name: "a", State: admin.Free},
			admin.Vote{Node: "n1", Leased: true, Reserved: true, Label: "host/7", Left: time.Second}),
			`a is free: host/7 is the next in the queue
    n1  keeps it for the next in the queue, for a second
  the queue is empty
`},
		{votes(admin.LockInfo{Name: "a", State: admin.Held}, admin.Vote{Node: "n1", Holds: true, Leased: true}), `a is held by (another program)
  ends  never: its lease has no end
    n1  has the lease, which has no end
  the queue is empty
`},
		{votes(admin.LockInfo{Name: "a", State: admin.Unclear, Label: "x\x1b"}, admin.Vote{Node: "n1", Leased: true, Label: "y"}), `a: so few nodes answer and vote that it cannot be said who has it
    n1  has a lease of y, which has no end
  the queue is empty
`},
	} {
		var b strings.Builder
		describe(&b, c.lock, seenAt)
		if b.String() != c.want {
			t.Errorf("%+v is described as\n%s\nwant\n%s", c.lock, b.String(), c.want)
		}
	}
}

// Programs rely on the names.
func TestLockAsJSON(t *testing.T) {
	l := isHeld
	l.Votes = []admin.Vote{node1, {Node: "n3", Err: errors.New("n3: connection refused")}}
	l.Waiters, l.Waiting = []admin.WaiterInfo{{Label: "host/43", Waited: time.Minute, Nodes: 2}}, 1
	got, err := json.Marshal(lockOf(l, seenAt))
	const want = `{"name":"orders/42","state":"held","holder":"host/42","since":"SINCE","held_ms":3600000,"token":17,"left_ms":8000,` +
		`"votes_for":1,"votes_needed":2,"votes":[{"node":"n1","holds":true,"leased":true,"label":"host/42","left_ms":8100},` +
		`{"node":"n3","holds":false,"leased":false,"error":"connection refused"}],"waiting":1,"waiters":[{"label":"host/43","waited_ms":60000,"nodes":2}]}`
	if text := strings.Replace(string(got), l.Since.UTC().Format(time.RFC3339), "SINCE", 1); err != nil || text != want {
		t.Errorf("%s, %v; want\n%s", text, err, want)
	}
}

func TestLookingIsRefused(t *testing.T) {
	h := newHome(t)
	for _, c := range []struct {
		args string
		want int
		said string
	}{
		{"inspect", exitUsage, "no NAME"},
		{"inspect a b", exitUsage, `"b" comes after NAME "a"`},
		{"inspect a", exitNoQuorum, "there is no file"},
		{"ls", exitNoQuorum, "no lock was ever taken in it"},
		{"ls --node file:///nowhere/x", exitNoQuorum, "there is no file /nowhere/x"},
		{"ls a b", exitUsage, ""},
		{"ls --limit 0", exitUsage, "--limit is 0"},
		{"ls --watch=1ms", exitUsage, "--watch is 1ms"},
		{"release a", exitUsage, "--force"},
		{"release --force a", exitUsage, "--yes"},
		{"release --force --yes", exitUsage, "no NAME"},
		{"ls --node valkey://127.0.0.1:1", exitNoQuorum, "connection refused"},
		{"release --force --yes a --node valkey://127.0.0.1:1", exitNoQuorum,
			`inspect "a": valkey://127.0.0.1:1: connection refused`},
		{"doctor --ttl 1ms", exitUsage, "--ttl is 1ms"},
		{"doctor --max-ttl 1s", exitUsage, "--max-ttl is 1s, it must be at least --ttl, 10s"},
		{"doctor --max-ttl -1s", exitUsage, "--max-ttl is -1s"},
		{"doctor --for 2h", exitUsage, "--for is 2h"},
		{"doctor --for -1s", exitUsage, "--for is -1s"},
		{"doctor name", exitUsage, "unknown command"},
		{"doctor --node nonsense", exitUsage, "it has no scheme"},
		{"nodes name", exitUsage, "unknown command"},
	} {
		r := h.start(append([]string{"fenlock"}, strings.Fields(c.args)...)...)
		if r.want(c.want, c.said); r.rest() != "" {
			t.Errorf("%s: it printed something", c.args)
		}
	}
}

// A lock that is held, on the default file: it is shown, and broken, and its job ends.
func TestLookingAndBreaking(t *testing.T) {
	h := newHome(t)
	holder := h.start("fenlock", "run", "--label", "a report", "--ttl", "2s", "orders/42", "--", "sh", "-c",
		"echo held; exec sleep 100")
	if line := holder.line(); line != "held" {
		t.Fatal(line)
	}
	waiter := h.start("fenlock", "run", "--label", "another", "orders/42", "--", "echo", "next")
	host, _ := os.Hostname()
	label := func(text string, r *running) string { return fmt.Sprintf("%s (%s/%d)", text, host, r.cmd.Process.Pid) }
	show := func(words string) (l lockDoc) {
		t.Helper()
		text := h.output(0, words)
		var list listDoc
		if strings.HasPrefix(text, `{"locks"`) {
			if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Locks) != 1 {
				t.Fatalf("%s: %v", text, err)
			}
			return list.Locks[0]
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return l
	}
	for show("inspect --json orders/42").Waiting == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	for _, l := range []lockDoc{show("inspect --json orders/42"), show("ls --json"),
		show("ls --json order?/*")} {
		if l.Name != "orders/42" || l.State != "held" || l.Holder != label("a report", holder) || l.Token == 0 ||
			l.LeftMS != 0 || !l.Bound || l.Waiting != 1 || l.VotesFor != 1 || l.Since == nil {
			t.Errorf("%+v", l)
		}
	}
	if l := show("inspect --json orders/42"); len(l.Waiters) != 1 || l.Waiters[0].Label != label("another", waiter) {
		t.Errorf("%+v", l)
	}
	token := show("ls --json").Token
	text := h.output(0, "release --force --yes orders/42")
	if !strings.Contains(text, "broken: orders/42, held by "+label("a report", holder)+" for ") ||
		!strings.Contains(text, "1 waiting") {
		t.Error(text)
	}
	if next := waiter.rest(); next != "next\n" {
		t.Errorf("the waiter said %q", next)
	}
	waiter.want(0)
	holder.want(exitLost, "lost")
	if l := show("inspect --json orders/42"); l.State != "free" || l.Waiting != 0 || l.Holder != "" || token == 0 {
		t.Errorf("%+v", l)
	}
	h.start("fenlock", "ls", "nobody/*").want(0, `no lock matches "nobody/*"`)
	if text := h.output(0, "release --force --yes --json orders/42"); !strings.Contains(text, `"broken":false`) {
		t.Error(text)
	}
}
