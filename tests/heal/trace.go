//go:build unix

package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// remembered is how many requests are remembered for each lock: those of some TTLs.
const remembered = 300

// trace is what the nodes answered about the locks that are held, to everybody.
type trace struct {
	mu   sync.Mutex
	said map[string][]said // by name, the newest last
}

// said is an answer, or that there was none.
type said struct {
	by      string
	node    int
	request node.Request
	sent    time.Time
	took    time.Duration
	answer  node.Answer
	err     error
	late    bool // nobody waited for it any more
}

// newTrace returns an empty one.
func newTrace() *trace { return &trace{said: map[string][]said{}} }

// of returns what is remembered of a lock, the oldest first.
func (t *trace) of(name string) []said {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.said[name])
	slices.SortStableFunc(all, func(a, b said) int { return cmp.Or(a.sent.Compare(b.sent), a.node-b.node) })
	return all
}

// rounds returns a line for each time that the nodes were asked.
func rounds(all []said) (lines []string) {
	var before said
	for _, s := range all {
		r := s.request
		if len(lines) == 0 || s.by != before.by || r.Op != before.request.Op || r.Token != before.request.Token || r.Holder != before.request.Holder ||
			s.sent.Sub(before.sent) > sameRound {
			lines = append(lines, fmt.Sprintf("%s %s: %v %d:", s.sent.Format("05.000"), s.by, r.Op, r.Token))
		}
		before = s
		lines[len(lines)-1] += "  " + s.String()
	}
	return lines
}

// sameRound is within which the requests to all nodes are made.
const sameRound = 5 * time.Millisecond

func (s said) String() string {
	text := fmt.Sprintf("[%d] ", s.node+1)
	switch {
	case s.err != nil:
		text += s.err.Error()
	case s.answer.Status == node.Granted && s.request.Op != node.Release:
		text += fmt.Sprint(s.answer.Register)
	case s.answer.Status == node.Held:
		text += fmt.Sprintf("held for %v by %s", s.answer.Remaining, s.answer.HeldBy)
	default:
		text += s.answer.Status.String()
	}
	text += fmt.Sprintf(" (%d ms", s.took.Milliseconds())
	if s.late {
		text += ", too late"
	}
	return text + ")"
}

// around returns a node whose answers to somebody are remembered.
func (t *trace) around(n node.Ordered, i int, by string) node.Ordered { return traced{n, t, i, by} }

// traced embeds the node, so that it can do all that the node can.
type traced struct {
	node.Ordered
	trace *trace
	i     int
	by    string
}

func (n traced) Start(r node.Request, timeout time.Duration, call node.Call) {
	n.Ordered.Start(r, timeout, &tracedCall{Call: call, node: n, request: r, sent: time.Now()})
}

type tracedCall struct {
	node.Call
	node    traced
	request node.Request
	sent    time.Time
}

func (c *tracedCall) Done(a node.Answer, err error) {
	t, name := c.node.trace, c.request.Name
	t.mu.Lock()
	all := append(t.said[name], said{c.node.by, c.node.i, c.request, c.sent, time.Since(c.sent), a, err, !c.Wanted()})
	t.said[name] = all[max(0, len(all)-remembered):]
	t.mu.Unlock()
	c.Call.Done(a, err)
}
