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
	"github.com/fenlock/fenlock/node/engine"
)

// keys is what package cas asks of a bucket: a cas.Keys.
type keys struct{ *link }

// bucket returns the bucket's stream as a connection knows it. The first time it asks for it.
func (k keys) bucket(ctx context.Context) (stream jetstream.Stream, c *session, asked bool, err error) {
	if c, err = k.open(ctx); err != nil {
		return nil, nil, false, err
	}
	c.mu.Lock()
	stream = c.stream
	c.mu.Unlock()
	if stream != nil {
		return stream, c, false, nil
	}
	ctx, over := c.asks(ctx, apiInfo)
	defer over()
	if stream, err = c.js.Stream(ctx, k.stream()); err != nil {
		return nil, c, true, c.unread(err, apiInfo)
	}
	c.mu.Lock()
	c.stream = stream
	c.mu.Unlock()
	return stream, c, true, nil
}

// info asks what the bucket is now, and refuses one that is not fit.
func (k keys) info(ctx context.Context, o ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	stream, c, asked, err := k.bucket(ctx)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	if !asked || len(o) > 0 {
		ctx, over := c.asks(ctx, apiInfo)
		defer over()
		if info, err = stream.Info(ctx, o...); err != nil {
			return nil, c.unread(err, apiInfo)
		}
	}
	return info, k.refuse(info.Config)
}

// Look implements cas.Keys. The bucket's own memory is when it was made.
func (k keys) Look(ctx context.Context) (cas.Now, error) {
	info, err := k.info(ctx)
	if err != nil {
		return cas.Now{}, err
	}
	if info.TimeStamp.IsZero() {
		return cas.Now{}, engine.Misconfiguredf("the server does not tell its time; it has to be NATS 2.10 or later")
	}
	return cas.Now{Clock: time.Duration(info.TimeStamp.UnixNano()),
		Server: fmt.Sprint(k.link.bucket, " ", info.Config.FirstSeq),
		Memory: fmt.Sprint(info.Created.UnixNano()), State: info.State.LastSeq}, nil
}

// Get implements cas.Keys, one after the other.
func (k keys) Get(ctx context.Context, names ...string) (values []cas.Value, err error) {
	stream, c, _, err := k.bucket(ctx)
	if err != nil {
		return nil, err
	}
	ctx, over := c.asks(ctx, apiGet)
	defer over()
	for _, key := range names {
		msg, err := stream.GetLastMsgForSubject(ctx, k.subject(key))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			values = append(values, cas.Value{})
		case err != nil:
			return nil, c.unread(err, apiGet)
		case msg.Sequence == 0 || msg.Subject != k.subject(key):
			return nil, engine.Misconfiguredf("the server answers with a message that was not asked for")
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
func (k keys) Put(ctx context.Context, key string, data []byte, over cas.Value, at cas.Now, _ uint64) (uint64, error) {
	c, err := k.open(ctx)
	if err != nil {
		return 0, err
	}
	expect := jetstream.WithExpectLastSequencePerSubject(over.Version)
	if over.Version == 0 {
		expect = jetstream.WithExpectLastSequence(at.State.(uint64))
	}
	ctx, end := c.asks(ctx, k.subject(key))
	defer end()
	ack, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: k.subject(key), Data: data}, expect,
		jetstream.WithExpectStream(k.stream()), jetstream.WithRetryAttempts(0))
	var api *jetstream.APIError
	switch {
	case err == nil && ack.Stream == k.stream() && ack.Sequence > max(over.Version, at.State.(uint64)):
		return ack.Sequence, nil
	case err == nil:
		return 0, fmt.Errorf("the server has acknowledged another write, %d of %.100q", ack.Sequence, ack.Stream)
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return 0, cas.ErrConflict
	case errors.As(err, &api) && api.Code < 500 || full(err), // the leader has refused it
		errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrMaxPayload): // no server has taken it
		return 0, node.NotSent(err)
	}
	return 0, c.explain(err, k.subject(key)) // unknown, also if the connection was closed: that can be after it was sent
}

// Stripes implements cas.Keys.
func (k keys) Stripes(ctx context.Context) (all []int, err error) {
	info, err := k.info(ctx, jetstream.WithSubjectFilter(k.subject(">")))
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		if stripe, ours := k.stripe(subject); ours {
			all = append(all, stripe)
		}
	}
	return all, nil
}

// stripe returns the stripe whose record has this subject, and whether there is one.
func (k keys) stripe(subject string) (int, bool) {
	return cas.ParseStripe(strings.TrimPrefix(subject, k.subject("")))
}

const (
	scanKey     = "scan"          // what a scan writes to, nothing of use
	scanTimeout = 5 * time.Second // bounds a scan: a server that is not the leader any more may never see the write
	batch       = 256             // is how many records a scan asks for at once
)

// Scan implements cas.Keys. A read may be answered by a server that is not the leader any more. So
// it writes first, and reads from one server, in the order of the revisions, until it has seen that
// write.
func (k keys) Scan(ctx context.Context, yield func(stripe int, v cas.Value)) error {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	stream, c, _, err := k.bucket(ctx)
	if err != nil {
		return err
	}
	asks, over := c.asks(ctx, k.subject(scanKey))
	ack, err := c.js.Publish(asks, k.subject(scanKey), nil, jetstream.WithExpectStream(k.stream()),
		jetstream.WithRetryAttempts(0))
	over()
	if err != nil {
		return c.explain(err, k.subject(scanKey))
	}
	asks, over = c.asks(ctx, apiConsumer)
	defer over()
	reader, err := stream.CreateConsumer(asks, jetstream.ConsumerConfig{
		FilterSubject: k.subject(">"), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy: jetstream.AckNonePolicy,
		Replicas:  1, MemoryStorage: true, InactiveThreshold: 2 * scanTimeout, // for when it cannot be deleted
	})
	if err != nil {
		return c.explain(err, apiConsumer)
	}
	defer stream.DeleteConsumer(ctx, reader.CachedInfo().Name)
	for seen := uint64(0); ; {
		some, err := reader.Fetch(batch, jetstream.FetchContext(asks))
		if err != nil {
			return c.explain(err, apiConsumer)
		}
		for msg := range some.Messages() {
			about, err := msg.Metadata()
			if err != nil {
				return err
			}
			if seen++; about.Sequence.Consumer != seen {
				return errors.New("a record was lost on the way")
			}
			if stripe, ours := k.stripe(msg.Subject()); ours {
				yield(stripe, cas.Value{Data: msg.Data(), Version: about.Sequence.Stream})
			}
			if about.Sequence.Stream >= ack.Sequence && about.NumPending == 0 {
				return nil
			}
		}
		if err := errors.Join(some.Error(), asks.Err()); err != nil {
			return c.explain(err, apiConsumer)
		}
	}
}
