package natsnode

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// record is all of one stripe, as it is stored under the key that is the stripe's number.
type record struct {
	rule.Store
	Mark uint64 // the revision of the mark that the leases were made under; those of another one do not count

	stripe   int
	revision uint64 // that was read, 0 if there is none yet
}

// format begins each record. What follows is encoded by encoding/gob: names are any bytes, which
// JSON does not keep.
const format = "fenlock natsnode 2\n"

// read returns the record of a stripe. A key that was never written is the zero Store.
func (n *Node) read(ctx context.Context, stripe int) (*record, error) {
	r := &record{stripe: stripe}
	var err error
	r.revision, _, err = n.get(ctx, strconv.Itoa(stripe), r)
	return r, err
}

// get reads what is stored under a key, with its revision and when it was written. Revision 0 says
// that there is nothing.
func (n *Node) get(ctx context.Context, key string, to any) (revision uint64, written time.Time, err error) {
	msg, err := n.stream.GetLastMsgForSubject(ctx, n.config.subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, written, nil
	}
	if err != nil {
		return 0, written, configuration(err)
	}
	return msg.Sequence, msg.Time, decode(msg.Subject, msg.Data, to)
}

func decode(subject string, data []byte, to any) error {
	text, ours := bytes.CutPrefix(data, []byte(format))
	if !ours { // also the marker that a key was deleted, which has no data
		return fmt.Errorf("%w: %s was written by something else, so that what fenlock had there is lost; use a bucket that only fenlock writes to", node.ErrMisconfigured, subject)
	}
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(to); err != nil {
		return fmt.Errorf("%w: %s is broken: %w", node.ErrMisconfigured, subject, err)
	}
	return nil
}

// load reads the record of a stripe as it counts now, in this order: the time, the record, the mark.
// A lease that is made on it ends at most its TTL after a time at which the mark was there. That the
// record is compared by a write compares the bucket too, since buckets have no revision in common.
func (n *Node) load(ctx context.Context, stripe int) (*record, now, mark, error) {
	for {
		at, err := n.look(ctx)
		if err != nil {
			return nil, at, mark{}, err
		}
		r, err := n.read(ctx, stripe)
		if err != nil {
			return nil, at, mark{}, err
		}
		m, err := n.mark(ctx)
		if err != nil {
			return nil, at, m, err
		}
		if r.under(m, at) {
			return r, at, m, nil
		}
	}
}

// under makes a record what it is worth under a mark. It returns false if the mark is older than the
// record's own, and would count: a server has answered that is not the leader any more.
func (r *record) under(m mark, at now) bool {
	r.Out = !m.votes(at)
	if r.Mark > m.revision && !r.Out {
		return false
	}
	if r.Mark != m.revision {
		r.Mark, r.Leases = m.revision, nil
	}
	return true
}

// errChanged is why nothing was written: another client was first. Nothing was done.
var errChanged = errors.New("changed meanwhile")

// write stores a record, if no client has since it was read.
func (n *Node) write(ctx context.Context, r *record, at now) error {
	// A Store sweeps when it has grown, and this one is made anew for each operation.
	maps.DeleteFunc(r.Leases, func(_ string, l rule.Lease) bool { return l.Expires <= at.clock })
	err := n.put(ctx, strconv.Itoa(r.stripe), r, r.revision, at.last)
	if errors.Is(err, nats.ErrMaxPayload) {
		return node.NotSent(fmt.Errorf("%d names of one stripe are leased, more than fit into a message: %w", len(r.Leases), err))
	}
	return err
}

// put writes under a key, if it has this revision. Revision 0 is that of any bucket in which there is
// nothing: then the last write of all must be the one that was seen. It is sent once: the client
// library would send again what no server has taken.
func (n *Node) put(ctx context.Context, key string, what any, revision, last uint64) error {
	b := bytes.NewBufferString(format)
	if err := gob.NewEncoder(b).Encode(what); err != nil {
		return node.NotSent(err)
	}
	expect := jetstream.WithExpectLastSequencePerSubject(revision)
	if revision == 0 {
		expect = jetstream.WithExpectLastSequence(last)
	}
	_, err := n.js.PublishMsg(ctx, &nats.Msg{Subject: n.config.subject(key), Data: b.Bytes()}, expect, jetstream.WithRetryAttempts(0))
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return errChanged
	case errors.Is(err, jetstream.ErrNoStreamResponse): // no server has taken it
		return node.NotSent(err)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return node.NotSent(fmt.Errorf("not connected: %w", err))
	}
	return err // unknown, also if the connection was closed: that can be after it was sent
}
