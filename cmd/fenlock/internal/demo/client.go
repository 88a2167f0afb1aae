//go:build linux || darwin || freebsd

package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// cast is the clients of a scene.
type cast struct {
	stage   *stage
	nodes   []string      // their URLs, as most clients have them
	longest time.Duration // MaxTTL
	inbox   chan said
	backlog []said // heard, and not asked for yet
}

func newCast(st *stage, nodes []string, longest time.Duration) *cast {
	return &cast{stage: st, nodes: nodes, longest: longest, inbox: make(chan said, 1024)}
}

// client is a client process, which does what the scene tells it, and reports.
type client struct {
	*cast
	name   string
	run    *process
	orders *json.Encoder
}

// client starts a client.
func (k *cast) client(name string, ttl time.Duration) *client { return k.clientOf(name, k.nodes, ttl) }

// clientOf starts a client that has other addresses for the nodes.
func (k *cast) clientOf(name string, nodes []string, ttl time.Duration) *client {
	st := k.stage
	log, err := os.Create(filepath.Join(st.folder, name+".log"))
	st.must(err)
	defer log.Close()
	cmd := exec.Command(st.client[0], st.client[1:]...)
	cmd.Stderr = log
	// Pipes of our own: those of exec.Cmd are closed by Wait, with reports unread.
	orders, in, err := os.Pipe()
	st.must(err)
	out, reports, err := os.Pipe()
	st.must(err)
	cmd.Stdin, cmd.Stdout = orders, reports
	c := &client{cast: k, name: name, orders: json.NewEncoder(in)}
	c.run, err = st.keeper.launch(cmd)
	orders.Close()
	reports.Close()
	st.must(err)
	st.atEnd(func() {
		c.run.signal(syscall.SIGCONT)
		in.Close()
		c.run.leave()
		out.Close()
	})
	go c.listen(out, log.Name())
	c.do(order{Do: doOpen, Nodes: nodes, Label: name, TTL: ttl, MaxTTL: k.longest}, opened)
	return c
}

// listen passes on what the client reports. The last is that it has ended.
func (c *client) listen(from io.Reader, log string) {
	for lines := json.NewDecoder(from); ; {
		r := said{client: c}
		err := lines.Decode(&r.report)
		r.at = time.Since(c.stage.began)
		if err != nil {
			text, _ := os.ReadFile(log)
			r.What, r.Text = failed, "it has ended: "+string(text[:min(len(text), 1<<10)])
		}
		select {
		case c.inbox <- r:
		default: // the scene is over, or the client says more than any scene asks for
			return
		}
		if err != nil {
			return
		}
	}
}

// tell gives an order. What comes of it is reported when it is done.
func (c *client) tell(o order) {
	if c.orders.Encode(o) != nil {
		// It has ended, and whoever reads what it says knows why.
		r := c.await(failed)
		c.stage.fail("%s: %s", c.name, r.Text)
	}
}

// do gives an order, and waits until it is done.
func (c *client) do(o order, want heard) said {
	c.tell(o)
	return c.await(want)
}

// await returns the next report of the client that is of this kind. It ends the scene if
// the answer to an order is another one.
func (c *client) await(want heard) said {
	r := c.hear(c.name, func(r said) bool { return r.client == c && (r.What == want || !r.What.unasked()) })
	if r.What != want {
		c.stage.fail("%s reports %q, and not %q. %s", c.name, r.What, want, r.Text)
	}
	return r
}

// mustHold ends the scene if the client has been told that it lost the lock.
func (c *client) mustHold() {
	for more := true; more; {
		select {
		case r := <-c.inbox:
			c.backlog = append(c.backlog, r)
		default:
			more = false
		}
	}
	for _, r := range c.backlog {
		if r.client == c && r.What == lost {
			c.stage.fail("%s has lost the lock. %s", c.name, r.Text)
		}
	}
}

// hear returns the next report that is wanted, and keeps the others. Somebody is who
// should make it.
func (k *cast) hear(somebody string, wanted func(said) bool) said {
	if i := slices.IndexFunc(k.backlog, wanted); i >= 0 {
		r := k.backlog[i]
		k.backlog = slices.Delete(k.backlog, i, i+1)
		return r
	}
	deadline := time.After(patience)
	for {
		select {
		case r := <-k.inbox:
			switch {
			case wanted(r):
				return r
			case r.What == failed:
				k.stage.fail("%s: %s", r.client.name, r.Text)
			}
			k.backlog = append(k.backlog, r)
		case <-deadline:
			k.stage.fail("%s did nothing for %v", somebody, patience)
		case <-k.stage.ctx.Done():
			k.stage.must(k.stage.ctx.Err())
		}
	}
}

// said is a report, by whom, and when it was heard.
type said struct {
	report
	client *client
	at     time.Duration // since the scene began
}

// says shows what a client did, as of when it reported it.
func (r said) says(what What, format string, args ...any) {
	r.shows(r.client.name, what, format, args...)
}

// shows shows what a client's report means for somebody else.
func (r said) shows(actor string, what What, format string, args ...any) {
	r.client.stage.show(Event{At: r.at, Actor: actor, What: what, Text: fmt.Sprintf(format, args...), Token: r.Token, Value: r.Value})
}
