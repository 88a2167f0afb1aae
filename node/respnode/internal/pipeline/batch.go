package pipeline

import (
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// worthGrouping is the number of requests of a kind from which on one command for them costs
// the server less than one for each.
const worthGrouping = 3

// memory is what a pipeline uses again for each batch: the commands of its requests, and the
// replies.
type memory struct {
	words    []string // of all commands
	commands []resp.Command
	replies  []resp.Reply
	last     command.Last

	// What comes before a request about the same name must not be overtaken by it.
	names    map[string]node.Op // of those that no command has yet, the last one about each name
	releases []int              // those of them, by their place in the batch
	acquires []int
	extends  []int
	group    []*node.Request
	order    []int // the places of the requests, as the commands have them
	sizes    []int // of the commands: how many requests each carries out
	flat     []resp.Reply
	answers  []resp.Reply // by place
}

func (m *memory) clear() {
	clear(m.words)
	clear(m.commands)
	clear(m.replies)
	clear(m.group[:cap(m.group)])
	clear(m.flat)
	clear(m.answers)
	m.words, m.commands, m.replies = m.words[:0], m.commands[:0], m.replies[:0]
	m.order, m.sizes, m.flat, m.answers = m.order[:0], m.sizes[:0], m.flat[:0], m.answers[:0]
}

// compose makes the commands of a batch. Those that acquire, release or extend, and have nothing to
// do with waiting, are put together. The releases come first, so that a client's release of a name
// and its next acquire can be in one batch.
func (m *memory) compose(batch []started, keys *command.Keys, mark string) {
	if m.names == nil {
		m.names = make(map[string]node.Op)
	}
	for i := range batch {
		r := &batch[i].request
		grouped := command.Groups(r) && (mark != "" || r.Op == node.Release)
		before, there := m.names[r.Name]
		if there && !(grouped && before == node.Release && r.Op == node.Acquire) {
			m.flush(batch, keys, mark)
		}
		if !grouped {
			m.add(keys.Operation(m.words, r, mark, &m.last), i)
			continue
		}
		of := &m.releases
		switch r.Op {
		case node.Acquire:
			of = &m.acquires
		case node.Extend:
			of = &m.extends
		}
		m.names[r.Name], *of = r.Op, append(*of, i)
		if len(*of) == command.MaxGroup {
			m.flush(batch, keys, mark)
		}
	}
	m.flush(batch, keys, mark)
}

// flush makes commands of what was put together.
func (m *memory) flush(batch []started, keys *command.Keys, mark string) {
	for _, places := range [...][]int{m.releases, m.acquires, m.extends} {
		if len(places) < worthGrouping {
			for _, i := range places {
				m.add(keys.Operation(m.words, &batch[i].request, mark, &m.last), i)
			}
			continue
		}
		m.group = m.group[:0]
		for _, i := range places {
			m.group = append(m.group, &batch[i].request)
		}
		m.add(keys.Group(m.words, m.group, mark, &m.last), places...)
	}
	m.releases, m.acquires, m.extends = m.releases[:0], m.acquires[:0], m.extends[:0]
	clear(m.names)
}

// add takes a command, which was appended to the words, for the requests at some places.
func (m *memory) add(words []string, places ...int) {
	from := len(m.words)
	m.words = words
	m.commands = append(m.commands, words[from:len(words):len(words)])
	m.order, m.sizes = append(m.order, places...), append(m.sizes, len(places))
}

// split returns the replies to so many requests, by their places.
func (m *memory) split(requests int) []resp.Reply {
	for i, size := range m.sizes {
		if size == 1 {
			m.flat = append(m.flat, m.replies[i])
		} else {
			m.flat = command.AppendGroup(m.flat, m.replies[i], size)
		}
	}
	m.answers = append(m.answers, make([]resp.Reply, requests)...)
	for i, place := range m.order {
		m.answers[place] = m.flat[i]
	}
	return m.answers
}
