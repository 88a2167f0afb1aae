package zknode

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// mostMail is how many notifications a mailbox keeps. Who was away for longer is told that
// some may have been missed.
const mostMail = 32

// mailbox is the znode of a client that listens: the last of its waiters that were
// notified, each with a number, in the order in which that happened.
type mailbox struct {
	client  string
	version int32
	mail    []letter
}

type letter struct {
	number uint64
	waiter string // what follows the client's colon, without a label
}

// readMailbox reads a mailbox. Lines that make no sense are nobody's.
func readMailbox(client string, reply wire.Reply) *mailbox {
	m := &mailbox{client: client, version: reply.Stat.Version}
	for line := range bytes.Lines(reply.Data) {
		number, waiter, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if ok && err == nil && len(m.mail) < 2*mostMail {
			m.mail = append(m.mail, letter{n, waiter})
		}
	}
	return m
}

// tell is the operation that notifies a waiter.
func (m *mailbox) tell(p paths, waiter string) wire.Request {
	_, rest, _ := strings.Cut(waiter, ":")
	number, _, _ := strings.Cut(rest, ":")
	next := uint64(1)
	if len(m.mail) > 0 {
		next = m.mail[len(m.mail)-1].number + 1
	}
	mail := append(m.mail, letter{next, number})
	var text []byte
	for _, l := range mail[max(0, len(mail)-mostMail):] {
		text = fmt.Appendf(text, "%d %s\n", l.number, l.waiter)
	}
	return wire.Set{Path: p.client(m.client), Data: text, Version: m.version}
}

// since returns what came after a number, the number of the last, and whether some of it
// is not there any more.
func (m *mailbox) since(last uint64) (waiters []string, newest uint64, missed bool) {
	newest = last
	for _, l := range m.mail {
		if l.number > newest {
			missed = missed || l.number > newest+1
			newest = l.number
			waiters = append(waiters, m.client+":"+l.waiter)
		}
	}
	return waiters, newest, missed
}
