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
	subject  string
	revision uint64 // that was read, 0 if there is none yet
}

// format begins each record. What follows is a rule.Store, by encoding/gob: names are any
// bytes, which JSON does not keep.
const format = "fenlock natsnode 1\n"

// read returns the record of a stripe. A key that was never written is the zero Store.
func (n *Node) read(ctx context.Context, stripe int) (*record, error) {
	r := &record{subject: n.config.subject(strconv.Itoa(stripe))}
	msg, err := n.stream.GetLastMsgForSubject(ctx, r.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.revision = msg.Sequence
	text, ours := bytes.CutPrefix(msg.Data, []byte(format))
	if !ours { // also the marker that a key was deleted, which has no data
		return nil, fmt.Errorf("%w: %s was written by somebody else, so that its register is lost; use a bucket that only fenlock writes to", node.ErrMisconfigured, r.subject)
	}
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&r.Store); err != nil {
		return nil, fmt.Errorf("%w: %s is broken: %w", node.ErrMisconfigured, r.subject, err)
	}
	return r, nil
}

// errChanged is why a record was not written: somebody else was first. Nothing was done.
var errChanged = errors.New("changed meanwhile")

// write stores a record, if nobody has since it was read. It is sent once: the client
// library would send again what no server has taken.
func (n *Node) write(ctx context.Context, r *record, now time.Duration) error {
	// A Store sweeps when it has grown, and this one is made anew for each operation.
	maps.DeleteFunc(r.Leases, func(_ string, l rule.Lease) bool { return l.Expires <= now })
	b := bytes.NewBufferString(format)
	if err := gob.NewEncoder(b).Encode(&r.Store); err != nil {
		return node.NotSent(err)
	}
	_, err := n.js.PublishMsg(ctx, &nats.Msg{Subject: r.subject, Data: b.Bytes()},
		jetstream.WithExpectLastSequencePerSubject(r.revision), jetstream.WithRetryAttempts(0))
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return errChanged
	case errors.Is(err, jetstream.ErrNoStreamResponse): // no server has taken it
		return node.NotSent(err)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return node.NotSent(fmt.Errorf("not connected: %w", err))
	case errors.Is(err, nats.ErrMaxPayload):
		return node.NotSent(fmt.Errorf("%d names of one stripe are leased, more than fit into a message: %w", len(r.Leases), err))
	}
	return err // unknown, also if the connection was closed: that can be after it was sent
}
