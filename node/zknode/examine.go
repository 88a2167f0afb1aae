package zknode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// Examine implements node.Examiner. Beside the session it asks each server what it is, by
// ZooKeeper's word srvr, which servers answer unless they are told not to.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "ZooKeeper", Role: "ensemble", Member: n.member}
	var said []server
	var asking sync.WaitGroup
	asking.Go(func() { said = n.askServers(ctx) }) // at once: without a session, that takes all the time
	err := n.examine(ctx, look, &e)
	asking.Wait()
	for i, s := range said {
		e.Version = cmp.Or(s.version, e.Version)
		e.Findings = append(e.Findings, s.findings(n.servers[i])...)
	}
	if err == nil && len(said) == 1 && said[0].mode == "standalone" {
		e.Findings = append(e.Findings,
			node.Found("standalone", node.Note, "The ensemble is one server: no lock can be taken while it is down."))
	}
	return e, n.Fail("examine", err, ctx)
}

func (n *Node) examine(ctx context.Context, look node.Look, e *node.Examination) error {
	first, cancel := context.WithTimeout(ctx, engine.FirstAnswer)
	link, err := n.session.Link(first)
	cancel()
	if err != nil {
		return err
	}
	e.Address = link.Server()
	err = engine.MeasureTrips(e, func() (none time.Time, err error) {
		_, err = n.readState(ctx, link)
		return none, err
	})
	if err != nil {
		return err
	}
	f, err := n.facts(ctx, false, false)
	if err != nil {
		return err
	}
	f.Examine(e, look.MaxTTL)
	if need := look.MaxTTL + sessionSlack; look.MaxTTL > 0 && n.sessionTimeout() >= need && link.Timeout < need {
		e.Findings = append(e.Findings,
			node.Found("session-timeout", node.Error,
				"The servers grant sessions of %v, and leases of up to %v need %v: longer ones are refused.", link.Timeout,
				look.MaxTTL, need).
				Do("Set maxSessionTimeout=%d in the configuration of all servers, or give all clients a shorter MaxTTL.",
					need.Milliseconds()))
	}
	if n.digest == nil {
		e.Findings = append(e.Findings,
			node.Found("permissions", node.Warning,
				"Every client that reaches the servers may change the locks: the URL has no user.").
				Do("Give the URL a user and a password, before the first lock is taken below this root."))
	}
	return n.Admission().Check(f.Terms)
}

// server is what one server says of itself.
type server struct {
	version, mode string
	err           error
}

// mostSaid bounds what a server says of itself.
const mostSaid = 16 << 10

// askServers asks all servers at once.
func (n *Node) askServers(ctx context.Context) []server {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	said := make([]server, len(n.servers))
	var wait sync.WaitGroup
	for i, address := range n.servers {
		wait.Go(func() {
			text, err := n.say(ctx, address, "srvr")
			said[i].err = err
			for line := range strings.Lines(text) {
				if version, ok := strings.CutPrefix(line, "Zookeeper version: "); ok {
					said[i].version, _, _ = strings.Cut(version, "-")
				}
				if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
					said[i].mode = strings.TrimSpace(mode)
				}
			}
		})
	}
	wait.Wait()
	return said
}

// say sends a server a word of four letters.
func (n *Node) say(ctx context.Context, address, word string) (string, error) {
	conn, err := n.dial(ctx, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, mostSaid))
	if err == nil && len(text) == 0 {
		err = errors.New("it says nothing")
	}
	return string(text), err
}

func (s server) findings(address string) []node.Finding {
	found := func(what, mend string) []node.Finding {
		return []node.Finding{node.Found("server", node.Warning, "The server %s %s.", address, what).Do("%s", mend)}
	}
	switch {
	case s.err != nil:
		return found(fmt.Sprintf("does not answer: %v", s.err), "Start it, or look at the network.")
	case s.mode == "read-only":
		return found("is in read-only mode: it is cut off from the others", "Look at the network between the servers.")
	case s.mode == "" && s.version == "":
		return found("does not serve: it has no quorum, or may not say what it is (4lw.commands.whitelist)",
			"Start the others.")
	}
	return nil
}
