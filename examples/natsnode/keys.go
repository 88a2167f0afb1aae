package natsnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// keys is what package cas asks of a bucket: a cas.Keys.
type keys struct {
	config Config
	js     jetstream.JetStream
	stream jetstream.Stream
}

// Look implements cas.Keys. The bucket's own memory is when it was made.
func (b *keys) Look(ctx context.Context) (cas.Now, error) {
	info, err := b.stream.Info(ctx)
	if err != nil {
		return cas.Now{}, configuration(err)
	}
	if err := b.config.refuse(info.Config); err != nil {
		return cas.Now{}, err
	}
	if info.TimeStamp.IsZero() {
		return cas.Now{}, fmt.Errorf("%w: the server does not tell its time; it has to be NATS 2.10 or later",
			node.ErrMisconfigured)
	}
	return cas.Now{Clock: time.Duration(info.TimeStamp.UnixNano()),
		Server: fmt.Sprint(b.config.Bucket, " ", info.Config.FirstSeq),
		Memory: fmt.Sprint(info.Created.UnixNano()), State: info.State.LastSeq}, nil
}

// Get implements cas.Keys, one after the other.
func (b *keys) Get(ctx context.Context, names ...string) (values []cas.Value, err error) {
	for _, key := range names {
		msg, err := b.stream.GetLastMsgForSubject(ctx, b.config.subject(key))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			values = append(values, cas.Value{})
		case err != nil:
			return nil, configuration(err)
		default:
			values = append(values, cas.Value{Data: msg.Data, Version: msg.Sequence,
				Written: time.Duration(msg.Time.UnixNano())})
		}
	}
	return values, nil
}

// Put implements cas.Keys. Version 0 is that of any bucket in which there is nothing: then the last
// write of all must be the one that was seen. It is sent once: the client library would send again
// what no server has taken.
func (b *keys) Put(ctx context.Context, key string, data []byte, over cas.Value, at cas.Now, _ uint64) (uint64, error) {
	expect := jetstream.WithExpectLastSequencePerSubject(over.Version)
	if over.Version == 0 {
		expect = jetstream.WithExpectLastSequence(at.State.(uint64))
	}
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.config.subject(key), Data: data}, expect,
		jetstream.WithRetryAttempts(0))
	if err == nil {
		return ack.Sequence, nil
	}
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return 0, cas.ErrConflict
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrMaxPayload): // no server has taken it
		return 0, node.NotSent(err)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return 0, node.NotSent(fmt.Errorf("not connected: %w", err))
	}
	return 0, err // unknown, also if the connection was closed: that can be after it was sent
}

// Stripes implements cas.Keys.
func (b *keys) Stripes(ctx context.Context) (all []int, err error) {
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.config.subject(">")))
	if err != nil {
		return nil, configuration(err)
	}
	for subject := range info.State.Subjects {
		if stripe, ours := b.stripe(subject); ours {
			all = append(all, stripe)
		}
	}
	return all, nil
}

// stripe returns the stripe whose record has this subject, and whether there is one.
func (b *keys) stripe(subject string) (int, bool) {
	return cas.ParseStripe(strings.TrimPrefix(subject, b.config.subject("")))
}

const (
	scanKey     = "scan"          // what a scan writes to, nothing of use
	scanTimeout = 5 * time.Second // bounds a scan: a server that is not the leader any more may never see the write
	batch       = 256             // is how many records a scan asks for at once
)

// Scan implements cas.Keys. A read may be answered by a server that is not the leader any more. So
// it writes first, and reads from one server, in the order of the revisions, until it has seen that
// write.
func (b *keys) Scan(ctx context.Context, yield func(stripe int, v cas.Value)) error {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	ack, err := b.js.Publish(ctx, b.config.subject(scanKey), nil, jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	c, err := b.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: b.config.subject(">"), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy: jetstream.AckNonePolicy,
		Replicas:  1, MemoryStorage: true, InactiveThreshold: 2 * scanTimeout, // for when it cannot be deleted
	})
	if err != nil {
		return err
	}
	defer b.stream.DeleteConsumer(ctx, c.CachedInfo().Name)
	for seen := uint64(0); ; {
		some, err := c.Fetch(batch, jetstream.FetchContext(ctx))
		if err != nil {
			return err
		}
		for msg := range some.Messages() {
			about, err := msg.Metadata()
			if err != nil {
				return err
			}
			if seen++; about.Sequence.Consumer != seen {
				return errors.New("a record was lost on the way")
			}
			if stripe, ours := b.stripe(msg.Subject()); ours {
				yield(stripe, cas.Value{Data: msg.Data(), Version: about.Sequence.Stream})
			}
			if about.Sequence.Stream >= ack.Sequence && about.NumPending == 0 {
				return nil
			}
		}
		if err := errors.Join(some.Error(), ctx.Err()); err != nil {
			return err
		}
	}
}
