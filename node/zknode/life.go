package zknode

import (
	"fmt"

	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// What the servers had can be put back only while they are down. So a note that the memory is out
// counts by the servers' clock if it was written in the servers' present life. A note of an earlier
// life may have been put back, and leases been made after it.
//
// The life of an ensemble is that of its leader, whose epoch is in each transaction. A server that
// is alone has no other epoch after a start. But the sessions that it begins have numbers in a row,
// from when it was started by its machine's clock, in milliseconds, times 65536.

// life is in which life of the servers a note was written.
type life uint8

const (
	earlierLife life = iota
	thisLife
	someLife // not known: only this client's own clock counts
)

const (
	// aloneID is the number of a server that is alone, in the first byte of the sessions that it
	// begins. One in an ensemble may have it too.
	aloneID = 1
	// mostApart is how far the numbers of two sessions are apart at most that began in one life:
	// 16 ms, or a million sessions.
	mostApart = 1 << 20
)

// lifeOf returns in which life a note was written that was read over a link, with the number of a
// transaction of now.
func lifeOf(link *session.Link, note wire.Reply, zxid int64) life {
	switch {
	case note.Stat.Mzxid>>32 != zxid>>32:
		return earlierLife
	case !link.Fresh:
		return someLife
	case uint64(link.ID)>>56 != aloneID:
		return thisLife
	}
	var writer int64
	if _, err := fmt.Sscanf(string(note.Data), "session %x", &writer); err != nil {
		return earlierLife
	}
	if apart := link.ID - writer; -mostApart < apart && apart < mostApart {
		return thisLife
	}
	return earlierLife
}

// noteText is what a note has: the session of the client that wrote it, if the session began in the
// present life of its server.
func noteText(link *session.Link) []byte {
	if !link.Fresh {
		return nil
	}
	return fmt.Appendf(nil, "session %x\n", link.ID)
}
