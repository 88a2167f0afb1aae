//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// client is a client process, which does what the scene tells it.
type client struct {
	stage   *stage
	name    string
	run     *process
	log     string // file of its standard error
	orders  *json.Encoder
	replies *json.Decoder
	out     *os.File // that the replies come from
}

// client starts a client.
func (g *group) client(name string) *client {
	c := &client{stage: g.stage, name: name, log: filepath.Join(g.folder, name+".log")}
	log, err := os.Create(c.log)
	g.must(err)
	defer log.Close()
	args := slices.Concat(g.Client[1:], []string{name}, g.urls())
	cmd := exec.Command(g.Client[0], args...)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	g.must(err)
	// A pipe of our own: that of exec.Cmd is closed by Wait, with replies unread.
	out, replies, err := os.Pipe()
	g.must(err)
	defer replies.Close()
	cmd.Stdout = replies
	c.orders, c.replies, c.out = json.NewEncoder(in), json.NewDecoder(out), out
	g.atEnd(func() { out.Close() })
	c.run, err = g.keeper.launch(cmd)
	g.must(err)
	g.atEnd(c.run.kill)
	return c
}

// tell gives an order, and hear waits until it is done.
func (c *client) tell(o order) {
	_ = c.orders.Encode(o) // hear knows why it has ended
}

func (c *client) hear() (r reply) {
	c.out.SetReadDeadline(time.Now().Add(patience))
	defer context.AfterFunc(c.stage.ctx, func() { c.out.SetReadDeadline(time.Unix(0, 0)) })()
	if err := c.replies.Decode(&r); err != nil {
		c.stage.must(context.Cause(c.stage.ctx))
		said, _ := os.ReadFile(c.log)
		c.stage.require(false, "%s does not answer: %v. %s", c.name, err, said[:min(len(said), 1<<10)])
	}
	c.stage.require(r.Error == "", "%s: %s", c.name, r.Error)
	return r
}

func (c *client) do(o order) reply {
	c.tell(o)
	return c.hear()
}
