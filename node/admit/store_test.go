package admit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// memory is a store in memory, which implements admit.Store. What it is now changes with each loss.
type memory struct {
	mu       sync.Mutex
	clock    func() time.Duration
	identity int
	mark     int // the identity that was admitted, 0: none
	noted    int // the identity as which it was noted to be out
	since    time.Duration
	terms    admit.Terms
	empty    []string
	tokens   map[int]fence.Token
	calls    []string
	before   func(ctx context.Context, call string) error // nil: nothing happens then
}

func (m *memory) lock(ctx context.Context, call string) (func(), error) {
	if m.before != nil {
		if err := m.before(ctx, call); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	m.calls = append(m.calls, call)
	return m.mu.Unlock, nil
}

// become replaces the store by another one: one without memory, or with the mark of before.
func (m *memory) become(mark int, terms admit.Terms) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.identity++
	m.mark, m.terms, m.tokens, m.empty = mark, terms, nil, nil
}

func (m *memory) memoryName() string { return "memory " + string(rune('0'+m.identity)) }

type memoryState struct{ identity, mark int }

func (m *memory) Facts(ctx context.Context) (admit.Facts, error) {
	unlock, err := m.lock(ctx, "facts")
	if err != nil {
		return admit.Facts{}, err
	}
	defer unlock()
	f := admit.Facts{Server: "self", Memory: m.memoryName(), Terms: m.terms, Votes: m.mark != 0 && m.mark == m.identity,
		Marked: m.mark != 0, Recorded: m.mark != 0 || m.terms != (admit.Terms{}) || len(m.tokens) > 0, Cause: node.Replaced,
		Untouched: true, Empty: m.empty,
		State: memoryState{m.identity, m.mark}}
	if m.noted == m.identity && m.mark == 0 {
		f.Counted, f.Out = true, m.clock()-m.since
	}
	return f, nil
}

func (m *memory) Note(ctx context.Context, f admit.Facts) (bool, error) {
	unlock, err := m.lock(ctx, "note")
	if err != nil {
		return false, err
	}
	defer unlock()
	if f.State != (memoryState{m.identity, m.mark}) || m.mark == m.identity {
		return false, nil
	}
	if m.mark != 0 || m.noted != m.identity {
		m.mark, m.noted, m.since = 0, m.identity, m.clock()
	}
	return true, nil
}

func (m *memory) Raise(ctx context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	unlock, err := m.lock(ctx, "raise")
	if err != nil {
		return err
	}
	defer unlock()
	if m.tokens == nil {
		m.tokens = map[int]fence.Token{}
	}
	for stripe, token := range tokens {
		m.tokens[stripe] = max(m.tokens[stripe], token)
	}
	return nil
}

func (m *memory) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	unlock, err := m.lock(ctx, "mark")
	if err != nil {
		return false, err
	}
	defer unlock()
	if f.State != (memoryState{m.identity, m.mark}) || m.terms.Check(own) != nil {
		return false, nil
	}
	m.mark, m.noted, m.empty = m.identity, 0, empty
	if m.terms == (admit.Terms{}) {
		m.terms = own
	}
	return true, nil
}

func (m *memory) votes() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark != 0 && m.mark == m.identity
}

// made returns the calls since it was asked last.
func (m *memory) made() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

// peer is a node whose answer about its registers is made up. It may have an Admission.
type peer struct {
	node.Node // nil: it carries nothing out
	name      string
	answer    *node.Registers // nil: it does not answer
	admission *admit.Admission
}

var errSilent = errors.New("no answer")

func (p *peer) String() string              { return p.name }
func (p *peer) Engine() any                 { return p }
func (p *peer) Join(node.Group) error       { return nil }
func (p *peer) Admission() *admit.Admission { return p.admission }

func (p *peer) Registers(context.Context) (node.Registers, error) {
	if p.answer == nil {
		return node.Registers{}, errSilent
	}
	return *p.answer, nil
}

// alike compares the calls.
func alike(got []string, want ...string) bool { return slices.Equal(got, want) }
