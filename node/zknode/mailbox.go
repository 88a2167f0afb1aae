package zknode

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// mostMail is how many notifications a mailbox keeps. A client that was away for longer is told
// that some may have been missed.
const mostMail = 32

// mailbox is the znode of a client that listens. It has the last of its waiters that were notified,
// each with a number, in the order of the notifications.
type mailbox struct {
	client  string
	version int32
	mail    []letter
}

type letter struct {
	number uint64
	notice string // as node.Notice has it, without a label
}

// readMailbox reads a mailbox. Lines that make no sense are for no waiter.
func readMailbox(client string, reply wire.Reply) *mailbox {
	m := &mailbox{client: client, version: reply.Stat.Version}
	for line := range strings.Lines(string(reply.Data)) {
		number, notice, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if ok && err == nil && len(m.mail) < 2*mostMail {
			m.mail = append(m.mail, letter{n, notice})
		}
	}
	return m
}

// tell is the operation that notifies a waiter. The mailbox is what it will be then.
func (m *mailbox) tell(p paths, notice string) wire.Request {
	next := uint64(1)
	if len(m.mail) > 0 {
		next = m.mail[len(m.mail)-1].number + 1
	}
	m.mail = append(m.mail, letter{next, notice})
	m.mail = m.mail[max(0, len(m.mail)-mostMail):]
	var text []byte
	for _, l := range m.mail {
		text = fmt.Appendf(text, "%d %s\n", l.number, l.notice)
	}
	m.version++
	return wire.Set{Path: p.client(m.client), Data: text, Version: m.version - 1}
}

// mailboxes remembers the mailboxes that this client has written into last, so that it need
// not read them before it does again. If others write there as well, that is refused.
type mailboxes struct {
	mu  sync.Mutex
	all map[string]*mailbox // by client
}

const mostMailboxes = 256

// take returns the mailbox of a client, for one use, or nil.
func (m *mailboxes) take(client string) *mailbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.all[client]
	delete(m.all, client)
	return one
}

// put remembers a mailbox that was written into.
func (m *mailboxes) put(one *mailbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= mostMailboxes {
		m.all = make(map[string]*mailbox)
	}
	m.all[one.client] = one
}

// since returns what came after a number, the number of the last, and whether some of it
// is not there any more.
func (m *mailbox) since(last uint64) (news []letter, newest uint64, missed bool) {
	newest = last
	for _, l := range m.mail {
		if l.number > newest {
			missed = missed || l.number > newest+1
			newest = l.number
			news = append(news, l)
		}
	}
	return news, newest, missed
}
