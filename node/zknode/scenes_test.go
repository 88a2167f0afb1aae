package zknode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// put carries out what a person could do with zkCli.sh.
func put(t *testing.T, n *Node, requests ...wire.Request) {
	t.Helper()
	replies, err := linkOf(t, n).Do(t.Context(), wire.Multi(requests))
	if err != nil || replies[0].Err != wire.OK {
		t.Fatalf("%+v, %v", replies, err)
	}
}

// What this client knows of memories, without a server.
func TestMemoriesThatCameBack(t *testing.T) {
	type step struct {
		memory         string
		admitted, lost bool
	}
	for name, steps := range map[string][]step{
		"as it is":                   {{"a", false, false}, {"a", false, false}, {"a", true, false}, {"a", true, false}},
		"set back to before a mark":  {{"a", true, false}, {"a", false, true}},
		"lost, and noted":            {{"a", true, false}, {"b", false, false}, {"b", true, false}},
		"the memory of before again": {{"a", true, false}, {"b", false, false}, {"a", true, true}, {"a", false, true}},
	} {
		var k known
		for i, s := range steps {
			if _, lost := k.seen(s.memory, s.admitted, nil); lost != s.lost {
				t.Errorf("%s, step %d: lost is %v", name, i, lost)
			}
		}
	}
}

// An ensemble that was set back, with its versions and zxids as large as ever: as by a tool that
// copies znodes. A client that has seen what came after does not believe it.
func TestZnodesPutBack(t *testing.T) {
	for _, admitted := range []bool{true, false} {
		url := freshURL()
		n := votingFor(t, time.Hour, url)
		s := factsOf(t, n).State.(state)
		old := s.record
		if admitted { // an admitted memory that another one has followed
			other := votingFor(t, time.Hour, url)
			other.lose(old.memory)
			f := noted(t, other)
			marked(t, other, f)
			ready(t, n)
			put(t, n, wire.Set{Path: n.paths.group(), Data: old.text(), Version: wire.Any},
				wire.Delete{Path: n.paths.mark(f.Memory), Version: wire.Any},
				wire.Create{Path: n.paths.mark(old.memory), ACL: n.acl})
		} else { // this memory, out as it was before it was admitted
			old.admitted = false
			put(t, n, wire.Set{Path: n.paths.group(), Data: old.text(), Version: wire.Any},
				wire.Delete{Path: n.paths.mark(old.memory), Version: wire.Any},
				wire.Create{Path: n.paths.out(old.memory), ACL: n.acl})
		}
		if why := rejoining(t, n); why.Cause != node.SetBack || why.Wait < 59*time.Minute {
			t.Errorf("admitted %v: it is out because %v", admitted, why)
		}
		if f := factsOf(t, n); f.Memory == old.memory {
			t.Errorf("admitted %v: the loss was not noted: %+v", admitted, f)
		}
	}
}

// A register that went back, while the connection stands.
func TestRegisterPutBack(t *testing.T) {
	n := votingFor(t, time.Hour, freshURL())
	a := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "me", 1000))))
	l, err := n.look(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	l.znode.Register = 5
	put(t, n, wire.Set{Path: n.paths.stripe(node.Stripe("a")), Data: l.znode.Text(), Version: wire.Any})
	if r, err := n.Registers(t.Context()); !errors.Is(err, errNotAdmitted) {
		t.Errorf("%+v, %v: another node would be rebuilt from it", r, err)
	}
	if a, err := n.Do(t.Context(), as(node.Acquire, request("a", "rival", 0))); err != nil || a.Status != node.Rejoining ||
		a.Absence.Cause != node.SetBack {
		t.Errorf("%+v, %v", a, err)
	}
	if r, err := n.Registers(t.Context()); err != nil || r.Admitted || r.Tokens[node.Stripe("a")] != a.Register {
		t.Errorf("%+v, %v: what this client knows was %d", r, err, a.Register)
	}
}

// A loss was noticed: what this client has written last, in another stripe, is no ground for a
// lease any more. Nor does a look vote that began before.
func TestNothingIsGrantedOnceALossIsNoticed(t *testing.T) {
	n := votingFor(t, time.Hour, freshURL())
	r := request("b", "me", 1000)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	v := *n.vote.Load()
	n.lose(v.memory)
	n.votes(v)
	if a, err := n.Do(t.Context(), as(node.Acquire, request("b", "me", 0))); err != nil || a.Status != node.Rejoining {
		t.Errorf("%+v, %v", a, err)
	}
}

// A register went back while a client was away. It is noticed over the next connection, whatever is
// asked there.
func TestRegisterPutBackWhileAway(t *testing.T) {
	url, f := freshURL(), new(faulty)
	n, other := votingFor(t, time.Hour, url, WithDial(f.dial)), votingFor(t, time.Hour, url)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "me", 1000))))
	f.sever()
	l, err := other.look(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	l.znode.Register = 5
	put(t, other, wire.Set{Path: n.paths.stripe(node.Stripe("a")), Data: l.znode.Text(), Version: wire.Any})
	f.cut.Store(false)
	if a, err := settle(t, n, as(node.Acquire, request("b", "me", 0))); err != nil || a.Status != node.Rejoining ||
		a.Absence.Cause != node.SetBack {
		t.Errorf("%+v, %v", a, err)
	}
}

// Another node of the group is admitted, and asks for the registers of one that was set back.
func TestRegistersOfWhatWasSetBack(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	n := votingFor(t, time.Hour, "zk://"+server.Addr())
	restore := backup(t, server)
	a := eventually(t, n, as(node.Acquire, request("a", "me", 1000)))
	restore()
	var r node.Registers
	err := errors.New("not asked")
	for range 500 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		r, err = n.Registers(ctx)
		cancel()
		if err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil || r.Admitted || r.Tokens[node.Stripe("a")] != a.Register {
		t.Errorf("%+v, %v: this client knows that the register was %d", r, err, a.Register)
	}
}

// A client that was granted nothing knows only that there were transactions which are not there any
// more.
func TestTransactionsAreGone(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	url := "zk://" + server.Addr()
	holder, n := openFor(t, time.Hour, true, url), openFor(t, time.Hour, true, url)
	ready(t, holder)
	restore := backup(t, server)
	eventually(t, holder, as(node.Acquire, request("b", "me", 0)))
	if a, err := settle(t, n, as(node.Acquire, request("b", "rival", 0))); err != nil || a.Status != node.Held {
		t.Fatalf("%+v, %v", a, err)
	}
	holder.Close()
	restore()
	if why := rejoining(t, n); why.Cause != node.SetBack {
		t.Errorf("it is out because %v", why)
	}
}

// The record was removed, and what it is about was not. The store was used, even if a client says
// that it is new, and a mark of before is none.
func TestRecordIsRemoved(t *testing.T) {
	for _, marks := range []bool{true, false} {
		url := freshURL()
		n := votingFor(t, time.Hour, url)
		mark := wire.Delete{Path: n.paths.mark(n.vote.Load().memory), Version: wire.Any}
		put(t, n, wire.Delete{Path: n.paths.group(), Version: wire.Any})
		if !marks {
			put(t, n, mark)
		}
		if why := rejoining(t, openFor(t, time.Hour, true, url)); why.Cause != node.SetBack || why.Wait < 59*time.Minute {
			t.Errorf("it is out because %v", why)
		}
		rejoining(t, n)
		if replies, err := linkOf(t, n).Do(t.Context(), wire.Get{Path: mark.Path}); err != nil ||
			replies[0].Err != wire.NoNode {
			t.Errorf("the mark of before: %+v, %v", replies, err)
		}
	}
}

// A backup from the time before the ensemble was admitted. By the servers' clocks it has been out
// for long, and it has leased names since. The wait begins with the restore, whichever client comes
// first. One has seen what is gone, one has seen nothing, and one has seen it out long ago.
func TestSetBackToBeforeTheAdmission(t *testing.T) {
	const maxTTL = 6 * time.Second
	for _, who := range []string{"knows", "new", "away"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			server, f := testserver.StartZooKeeper(t), new(faulty)
			url := "zk://" + server.Addr()
			n, away := openFor(t, maxTTL, false, url), openFor(t, maxTTL, false, url, WithDial(f.dial))
			rejoining(t, n)
			rejoining(t, away)
			restore := backup(t, server)
			rejoining(t, n)
			f.sever()
			ready(t, n)
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, lasting(request("a", "me", 0), maxTTL))))
			first := n
			switch who {
			case "new":
				first = openFor(t, maxTTL, false, url)
			case "away":
				first = away
			}
			if first != n {
				abandoned(n, new(faulty))
			}
			restore()
			began := time.Now()
			f.cut.Store(false)
			eventually(t, first, as(node.Acquire, lasting(request("a", "rival", 0), maxTTL)))
			if passed := time.Since(began); passed < maxTTL {
				t.Errorf("voted %v after it was set back, and the longest lease is %v", passed, maxTTL)
			}
		})
	}
}

// Clients that have seen transactions which are gone notice one loss, and not one each.
func TestLossIsNoticedOnce(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	url := "zk://" + server.Addr()
	n, first, second := openFor(t, time.Hour, true, url), openFor(t, time.Hour, true, url), openFor(t, time.Hour, true,
		url)
	ready(t, n)
	restore := backup(t, server)
	for range 200 { // more than are made after it
		ready(t, n)
	}
	ready(t, first)
	ready(t, second)
	n.Close()
	restore()
	rejoining(t, first)
	rejoining(t, second)
	marked(t, first, factsOf(t, first))
	for _, one := range []*Node{first, second} {
		eventually(t, one, as(node.Acquire, request("a", "", 0)))
		want(t, node.Granted)(one.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: "a"}))
	}
}

// A client that has used the ensemble knows better than the word that it is new.
func TestNewServersThatThisClientHasUsed(t *testing.T) {
	url := freshURL()
	n := votingFor(t, time.Hour, url)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "me", 0))))
	removeRoot(t, url)
	if why := rejoining(t, n); why.Cause != node.Unused || why.Wait < 59*time.Minute {
		t.Errorf("it is out because %v", why)
	}
}

// backup saves the data of a server, which goes on. Restore puts it back, and returns from when on
// the server could serve it.
func backup(t *testing.T, server *testserver.ZooKeeper) (restore func() time.Time) {
	t.Helper()
	begin := func() {
		t.Helper()
		if err := server.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(t.TempDir(), "backup")
	server.Stop()
	if err := os.CopyFS(folder, os.DirFS(server.Data())); err != nil {
		t.Fatal(err)
	}
	begin()
	return func() time.Time {
		t.Helper()
		server.Kill()
		server.Wipe()
		if err := os.CopyFS(server.Data(), os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		begin()
		return at
	}
}

// A lease of the backup has ended long ago, and other holders had the lock since. Its session
// is there again, too, and lasts for longer than the ensemble is out.
func TestLeaseOfABackup(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	const maxTTL = 1500 * time.Millisecond
	url := "zk://" + server.Addr()
	holder, n := votingFor(t, maxTTL, url), votingFor(t, maxTTL, url)
	held := lasting(request("held", "old", 0), maxTTL)
	want(t, node.Granted)(holder.Do(t.Context(), as(node.Acquire, held)))
	holder.stop() // it is stopped from now on, and looks after nothing
	restore := backup(t, server)
	eventually(t, n, node.Request{Op: node.ForceRelease, Name: "held"})
	since := eventually(t, n, as(node.Acquire, lasting(request("held", "since", 0), maxTTL)))
	restore()
	rejoining(t, n)
	ready(t, n)
	if l, err := n.Inspect(t.Context(), "held"); err != nil || l.Leased {
		t.Errorf("%+v, %v: a lease of the backup counts after the admission", l, err)
	}
	if a := eventually(t, holder, as(node.Extend, held)); a.Register < since.Register {
		t.Errorf("the origin is %d: the holder of before believes that no other one had the lock, and one had it with %d",
			a.Register, since.Register)
	}
}

// What cannot be right is refused with a reason, and nothing is written.
func TestRefusedAndUnchanged(t *testing.T) {
	url := freshURL()
	n := voting(t, url)
	right := factsOf(t, n).State.(state).record
	for _, c := range []struct {
		why    string
		change func(g *groupRecord)
		text   string
		group  func(g *node.Group)
	}{
		{why: "MaxTTL is 7s", change: func(g *groupRecord) { g.terms.MaxTTL = 7 * time.Second }},
		{why: "MaxTTL", group: func(g *node.Group) { g.MaxTTL += time.Second }},
		{why: "another group", change: func(g *groupRecord) { g.terms.Members = "zk://x zk://y" }},
		{why: "another group", group: func(g *node.Group) { g.Nodes = append(g.Nodes, n) }},
		{why: "not as fenlock writes it", change: func(g *groupRecord) { g.terms.MaxTTL = 0 }},
		{why: "not as fenlock writes it", change: func(g *groupRecord) { g.terms.Members = "" }},
		{why: "that it was admitted, and that it was not", change: func(g *groupRecord) { g.memory = "ABC" }},
		{why: "use one version", text: "fenlock group 3\nnew\n"},
		{why: "use one version", text: "fenlock group 1\nold\n"},
		{why: "not as fenlock writes it", text: "nonsense"},
		{why: "not as fenlock writes it", text: ""},
	} {
		g, text := right, []byte(c.text)
		if c.change != nil {
			c.change(&g)
		}
		if c.change != nil || c.group != nil {
			text = g.text()
		}
		put(t, n, wire.Set{Path: n.paths.group(), Data: text, Version: wire.Any})
		client, err := Open(url)
		if err != nil {
			t.Fatal(err)
		}
		to := node.Group{Nodes: []node.Node{client}, MaxTTL: testMaxTTL, New: true}
		if c.group != nil {
			c.group(&to)
		}
		if err := client.Join(to); err != nil {
			t.Fatal(err)
		}
		before := tree(t, n)
		refuses(t, client, true, c.why)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		e, err := client.Examine(ctx, node.Look{MaxTTL: to.MaxTTL})
		cancel()
		if err == nil && !strings.Contains(e.Why, c.why) {
			t.Errorf("it examines %+v; want %q", e, c.why)
		}
		if after := tree(t, n); after != before {
			t.Errorf("%q: refused, and\n%s became\n%s", c.why, before, after)
		}
		client.Close()
	}
}

// One ensemble by two names has one vote.
func TestOneEnsembleTwice(t *testing.T) {
	url := freshURL()
	alias := strings.Replace(url, "127.0.0.1", "localhost", 1)
	first, err := Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Open(alias)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	third, err := Open(freshURL())
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	g := node.Group{Nodes: []node.Node{first, second, third}, MaxTTL: time.Second, New: true}
	if err := errors.Join(first.Join(g), second.Join(g), third.Join(g)); err != nil {
		t.Fatal(err)
	}
	// The second comes first, so that it is admitted before it is known which server the first has.
	eventually(t, second, as(node.Acquire, lasting(request("a", "me", 0), time.Second)))
	eventually(t, first, as(node.Acquire, lasting(request("b", "me", 0), time.Second)))
	refuses(t, second, true, "the same server")
}

// What an earlier version of fenlock has left. An ensemble that votes goes on, and an ensemble
// whose record was made, with the terms, begins to wait.
func TestRecordOfAnEarlierVersion(t *testing.T) {
	url := freshURL()
	n := votingFor(t, time.Second, url)
	text := string(factsOf(t, n).State.(state).record.text())
	put(t, n, wire.Set{Path: n.paths.group(), Data: []byte(strings.Replace(text, "admitted true", "admitted false", 1)),
		Version: wire.Any},
		wire.Delete{Path: n.paths.mark(n.vote.Load().memory), Version: wire.Any})
	began := time.Now()
	votingFor(t, time.Second, url)
	if passed := time.Since(began); passed < time.Second {
		t.Errorf("it votes after %v", passed)
	}
	if another := openFor(t, 2*time.Second, true, url); true {
		refuses(t, another, true, fmt.Sprint(time.Second))
	}
}

// The clients that live for a moment have it admitted together: the time counts on the servers.
func TestShortLivedClients(t *testing.T) {
	url := freshURL()
	var waits []time.Duration
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		n, err := Open(url)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		a, err := n.Do(t.Context(), as(node.Acquire, lasting(request("a", "me", 0), time.Second)))
		n.Close()
		if err != nil {
			t.Fatal(err)
		}
		if a.Status == node.Granted {
			if !slices.IsSortedFunc(waits, func(a, b time.Duration) int { return int(b - a) }) {
				t.Errorf("they waited for %v", waits)
			}
			return
		}
		waits = append(waits, a.Absence.Wait)
	}
	t.Errorf("it is not admitted: %v", waits)
}
