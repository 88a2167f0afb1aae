package shell

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Health is how a node does, as far as its answers tell.
type Health uint8

const (
	Works         Health = iota // it answers in time, or has not been asked yet
	Down                        // it does not answer, or with an error that passes
	Late                        // it answers, but after the node timeout
	Out                         // it answers that it is not admitted
	Misconfigured               // a person has to change something
)

// HealthChange is told when a node does differently from what was told before.
type HealthChange struct {
	Peer int
	Now  Health
	Why  error // nil if it works
}

// health tells how the nodes do, from their answers to all requests. Nothing is sent for it: a node
// that is not asked may be down unheard.
//
// Each change is told once. A node that comes and goes is told of at most once a minute
// after the first few times; the last word may then be a minute old.
type health struct {
	env      Env
	inflight *inflight
	tell     func(HealthChange) // nil: it is not wanted
	peers    []peerHealth
}

type peerHealth struct {
	ails atomic.Bool // it was told that it does not work: answers need no mutex otherwise

	mu      sync.Mutex
	now     Health // as told, or about to be
	why     error
	told    time.Duration // when
	calm    time.Duration // from then on, nothing is told
	news    []HealthChange
	telling bool
}

const (
	minCalm = time.Second
	maxCalm = time.Minute
)

// answered takes what a request was answered, in time or by its end. A release promises
// nothing, so that its answer says less: it may come from a node that is out.
func (h *health) answered(peer int, r *node.Request, a *node.Answer, err error) {
	if h.tell == nil {
		return
	}
	p := &h.peers[peer]
	now, why := diagnose(a, err)
	if now == Works && (r.Op == node.Release || !p.ails.Load()) || errors.Is(why, node.ErrInvalid) {
		return // or it is the request's fault
	}
	h.change(HealthChange{peer, now, why})
}

// ails reports whether it was told that a node does not work.
func (h *health) ails(peer int) bool { return h.peers[peer].ails.Load() }

// late takes an answer that came after the node timeout, so long after it was asked.
func (h *health) late(peer int, err error, took, timeout time.Duration) {
	// One that was stopped for long, and goes on, is not slow.
	if h.tell == nil || err != nil || took > 4*timeout || !h.ails(peer) {
		return
	}
	h.change(HealthChange{peer, Late,
		fmt.Errorf("it answers after %v, and has %v", took.Round(time.Millisecond), timeout)})
}

// diagnose tells how a node does that answers so.
func diagnose(a *node.Answer, err error) (Health, error) {
	switch {
	case errors.Is(err, node.ErrMisconfigured):
		return Misconfigured, err
	case err != nil:
		return Down, err
	case a.Status == node.Rejoining:
		return Out, &node.AbsenceError{Absence: a.Absence}
	case a.Status == node.Lost && a.Detail != "":
		return Misconfigured, errors.New(a.Detail) // its store was changed under it
	}
	return Works, nil
}

// change has a change told, unless it is none, or comes too soon.
func (h *health) change(c HealthChange) {
	now := h.env.Now()
	p := &h.peers[c.Peer]
	p.mu.Lock()
	known := c.Now == p.now && (c.Now == Works || c.Now == Down || c.Now == Late || sameReason(c.Why, p.why)) ||
		c.Now == Down && p.now == Late || c.Now == Late && p.now != Down
	if known || now-p.told < p.calm {
		p.mu.Unlock()
		return
	}
	if p.told == 0 || now-p.told >= 2*maxCalm {
		p.calm = 0
	} else {
		p.calm = min(max(2*p.calm, minCalm), maxCalm)
	}
	p.now, p.why, p.told = c.Now, c.Why, now
	p.ails.Store(c.Now != Works)
	p.news = append(p.news, c)
	begin := !p.telling
	p.telling = true
	p.mu.Unlock()
	if begin {
		h.inflight.add(1)
		h.env.Go(func() { h.tellAll(p) }) // this goroutine may be an engine's, for which others wait
	}
}

// tellAll tells what is new of a node, in order.
func (h *health) tellAll(p *peerHealth) {
	for {
		p.mu.Lock()
		news := p.news
		p.news = nil
		p.telling = len(news) > 0
		p.mu.Unlock()
		if len(news) == 0 {
			h.inflight.add(-1)
			return
		}
		for _, c := range news {
			h.tell(c)
		}
	}
}

// sameReason compares reasons. When a node will be back moves with each answer, which is no
// other reason.
func sameReason(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	var first, second *node.AbsenceError
	if errors.As(a, &first) && errors.As(b, &second) {
		was, now := first.Absence, second.Absence
		was.Wait, now.Wait = 0, 0
		return was == now
	}
	return a.Error() == b.Error()
}
