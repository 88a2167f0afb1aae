package engines

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
)

// threeTTL is the TTL of a group of three. etcd counts it in whole seconds.
const threeTTL = 5 * time.Second

// hangs is how long a command may take that ends by itself. That is less than a test may take,
// which would end without a word of what is wrong.
const hangs = patience / 5

// outage is a node of a group of three, and what has its server down for a while. It keeps its
// memory: a node that has lost it needs both of the others to vote again.
type outage struct {
	name, url  string
	down, back func()
}

// In a group of three different stores, two servers are down. A holder is told before another
// client can have the lock. A client that does not wait is refused since the nodes are down. A
// client that waits has the lock when one of the two is back.
func TestTwoOfThreeDown(t *testing.T) {
	fenlock := testserver.Fenlock(t)
	for name, start := range map[string]func(t *testing.T, fenlock string) []outage{
		"Valkey, PostgreSQL, etcd": func(t *testing.T, fenlock string) []outage {
			p, e := testserver.StartPostgres(t), testserver.StartEtcd(t, 1)
			migrate(t, fenlock, p.DSN())
			member := e.Members[0]
			// Its leases would not outlast a crash: it would need both of the others to vote again.
			before := proxy.New(p.Addr(), nil)
			t.Cleanup(before.Close)
			cut, mend := impose(before, proxy.Rule{Cut: true})
			return []outage{stalls(t),
				{"PostgreSQL", strings.Replace(p.DSN(), p.Addr(), before.Addr(0), 1), cut, mend},
				{"etcd", "etcd://" + e.Addrs(), member.Kill, func() { e.Start(member) }}}
		},
		"Valkey, MariaDB, S3": func(t *testing.T, fenlock string) []outage {
			m := testserver.StartMariaDB(t)
			migrate(t, fenlock, m.URL())
			return []outage{stalls(t), {"MariaDB", m.URL(), m.Kill, func() { m.Restart() }}, refuses(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &three{t: t, fenlock: fenlock, nodes: start(t, fenlock)}
			for i := range g.nodes {
				g.lose(g.nodes[i], g.nodes[(i+1)%3])
			}
		})
	}
}

// stalls is a Valkey server that does not answer, and keeps its memory.
func stalls(t *testing.T) outage {
	p := proxy.New(testserver.Start(t, testserver.Kinds(t)[0]).Addr(), nil)
	t.Cleanup(p.Close)
	silent := proxy.Effect{Lose: true}
	down, back := impose(p, proxy.Rule{To: silent, From: silent})
	return outage{"Valkey", "valkey://" + p.Addr(0), down, back}
}

// impose returns what imposes a rule on the network before a server, and what lifts it.
func impose(p *proxy.Proxy, r proxy.Rule) (down, back func()) {
	var lift func()
	return func() { lift = p.Impose(r) }, func() { lift() }
}

// refuses is an object store in memory that closes each connection.
func refuses(t *testing.T) outage {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	store := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return outage{"S3", "s3://user:password@" + strings.TrimPrefix(server.URL, "http://") + "/bucket/locks",
		func() { down.Store(true) }, func() { down.Store(false) }}
}

// three is a group of three different stores.
type three struct {
	t       *testing.T
	fenlock string
	nodes   []outage
}

// command is a subcommand of fenlock on the group.
func (g *three) command(subcommand string, arguments ...string) *exec.Cmd {
	all := []string{subcommand}
	if subcommand == "run" {
		all = append(all, "--ttl", threeTTL.String(), "--max-ttl", threeTTL.String())
	}
	cmd := exec.Command(g.fenlock, append(all, arguments...)...)
	cmd.Env = append(os.Environ(), "FENLOCK_NODES="+g.nodes[0].url+","+g.nodes[1].url+","+g.nodes[2].url)
	return cmd
}

// lose has two nodes down, and the first of them come back first.
func (g *three) lose(first, second outage) {
	t := g.t
	g.admitted()
	var told bytes.Buffer
	holder := g.command("run", "lock", "--", "sh", "-c", `echo; exec sleep 1000`)
	holder.Stderr = &told
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1)) // it holds
	}
	if err != nil {
		t.Fatal(err, told.String())
	}
	first.down()
	second.down()
	if status := ended(t, holder); status != 76 {
		t.Fatalf("%s and %s are down, and the holder ends with %d: %s", first.name, second.name, status, &told)
	}
	refused := g.command("run", "--no-wait", "lock", "--", "true")
	text, _ := refused.CombinedOutput() // its error is the status
	if status := refused.ProcessState.ExitCode(); status != 69 || !strings.Contains(string(text), "no quorum") {
		t.Errorf("%s and %s are down, and the lock is refused with %d: %s", first.name, second.name, status, text)
	}
	waiter, complains := g.command("run", "--wait", hangs.String(), "lock", "--", "true"), make(written, 1)
	waiter.Stderr = complains
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-complains: // that a node is down
	case <-time.After(hangs):
		t.Error("a client that waits does not say that a node is down")
	}
	first.back()
	if status := ended(t, waiter); status != 0 {
		t.Errorf("%s is back, and a client that waits ends with %d", first.name, status)
	}
	second.back()
}

// written has a value once something was written.
type written chan struct{}

func (f written) Write(b []byte) (int, error) {
	select {
	case f <- struct{}{}:
	default:
	}
	return len(b), nil
}

// admitted waits until all nodes vote. A client that asks has a node admitted that may be.
func (g *three) admitted() {
	g.t.Helper()
	var output []byte
	for end := time.Now().Add(patience); time.Now().Before(end); {
		asked, err := g.command("run", "--new-servers", "--wait", "1s", "admission", "--", "true").CombinedOutput()
		if err == nil {
			output, err = g.command("nodes", "--json").Output()
		}
		if err == nil && bytes.Count(output, []byte(`"state":"votes"`)) == len(g.nodes) {
			return
		}
		output = append(asked, output...)
	}
	g.t.Fatalf("not all vote:\n%s", output)
}

// ended waits for a command, and returns its status.
func ended(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	hang := time.AfterFunc(hangs, func() { cmd.Process.Kill() })
	defer hang.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	return cmd.ProcessState.ExitCode()
}
