package respnode

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// remade is a link whose connection is made anew under each request, which is granted. The servers
// are those that the connections lead to.
type remade struct {
	*replier
	servers []string
	dial    atomic.Uint64
}

func (r *remade) Dial() uint64        { return r.dial.Load() }
func (r *remade) Up(dial uint64) bool { return dial == r.Dial() }

func (r *remade) Identify(_ context.Context, _ resp.Command, accept func(string, resp.Reply, uint64) error) error {
	dial := r.Dial()
	terms := resp.List([]resp.Reply{resp.Text("1000"), resp.Null(), resp.Null()})
	return accept(replytest.Info("run_id", r.servers[dial]), terms, dial)
}

func (r *remade) Do(context.Context, resp.Command) (resp.Reply, error) {
	r.dial.Add(1)
	return resp.Number(7), nil
}

func (r *remade) Exchange(commands []resp.Command, all []resp.Reply) []resp.Reply {
	for range commands {
		one, _ := r.Do(context.Background(), nil)
		all = append(all, one)
	}
	return all
}

// told is a call, and what it was told.
type told chan error

func (told) Wanted() bool                    { return true }
func (c told) Done(_ node.Answer, err error) { c <- err }

// A connection is lost after a look at its server, and the request goes over a new connection. The
// address may lead to another server by then, which may be another node of the group. A server has
// one vote.
func TestConnectionMadeUnderARequest(t *testing.T) {
	for second, counts := range map[string]bool{"own": true, "first": false} {
		for _, started := range []bool{false, true} {
			var nodes []node.Node
			for _, servers := range [][]string{{"first"}, {"own", second}} {
				link := &remade{replier: &replier{Lifetime: engine.NewLifetime()}, servers: servers}
				n, err := New(link, Server{Name: "valkey://" + servers[0], Prefix: DefaultPrefix})
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				nodes = append(nodes, n)
			}
			for _, n := range nodes {
				n := n.(*Node)
				if err := n.Join(node.Group{Nodes: nodes, MaxTTL: time.Second}); err != nil {
					t.Fatal(err)
				}
				if _, err := n.voting.Look(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			n, r := nodes[1].(*Node), node.Request{Op: node.Acquire, Name: "a", Holder: "h", TTL: time.Second, Token: 1}
			var err error
			if started {
				call := make(told, 1)
				n.Start(r, time.Minute, call)
				err = <-call
			} else {
				_, err = n.Do(t.Context(), r)
			}
			if counts && err != nil || !counts && !errors.Is(err, node.ErrMisconfigured) {
				t.Errorf("started %v, over a connection to the %s server: %v", started, second, err)
			}
		}
	}
}
