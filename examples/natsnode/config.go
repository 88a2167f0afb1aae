package natsnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
)

// Config says which bucket is the node, and what it has to be. The zero Config is not usable.
type Config struct {
	// Bucket is the name: letters, digits, - and _.
	Bucket string
	// Replicas is how many servers have the bucket: 1, 3 or 5. A bucket with another number is
	// refused: locks would not survive what the caller believes that they do.
	Replicas int
	// SyncAlways asserts that all servers that may have the bucket are configured with
	// sync_interval: always. No client can see it. Open refuses false.
	SyncAlways bool
}

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// check returns why the Config or the connection cannot be used, or nil.
func (c Config) check(nc *nats.Conn) error {
	switch {
	case !bucketName.MatchString(c.Bucket):
		return fmt.Errorf("%w: %q is not the name of a bucket", node.ErrInvalid, c.Bucket)
	case c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return fmt.Errorf("%w: Replicas is %d; it has to be 1, 3 or 5", node.ErrInvalid, c.Replicas)
	case !c.SyncAlways:
		return fmt.Errorf("%w: by default NATS loses what it has acknowledged with the power; set jetstream { sync_interval: always } on all servers, then say so with SyncAlways", node.ErrMisconfigured)
	case nc.Opts.ReconnectBufSize >= 0:
		return fmt.Errorf("%w: the connection keeps requests while it is broken and sends them later, when they are not waited for any more; connect with nats.ReconnectBufSize(-1)", node.ErrMisconfigured)
	}
	return nil
}

// stream is the name of the bucket's stream.
func (c Config) stream() string { return "KV_" + c.Bucket }

// subject is what the records are stored under, and all of them with ">".
func (c Config) subject(key string) string { return "$KV." + c.Bucket + "." + key }

// Create makes the bucket. It is called once, by hand or by what sets up the servers, and
// does nothing if there is the same bucket already. One with another configuration is an
// error, and stays as it is.
func Create(ctx context.Context, nc *nats.Conn, c Config) error {
	err := c.check(nc)
	if err == nil {
		err = c.create(ctx, nc, jetstream.StreamConfig{
			Name:     c.stream(),
			Subjects: []string{c.subject(">")},
			Storage:  jetstream.FileStorage, Replicas: c.Replicas,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			DenyDelete: true, DenyPurge: true,
			// No two buckets have a revision in common: a write that was meant for one fails in the other.
			FirstSeq: 1<<32 + rand.Uint64N(1<<52),
		})
	}
	if err != nil {
		return fmt.Errorf("natsnode %s: create: %w", c.Bucket, err)
	}
	return nil
}

func (c Config) create(ctx context.Context, nc *nats.Conn, s jetstream.StreamConfig) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err = js.CreateStream(ctx, s); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		old, err := js.Stream(ctx, s.Name)
		if err != nil {
			return configuration(err)
		}
		return c.refuse(old.CachedInfo().Config)
	}
	return configuration(err)
}

// configuration marks an error that waiting does not mend.
func configuration(err error) error {
	for _, permanent := range []error{jetstream.ErrStreamNotFound, jetstream.ErrStreamNameAlreadyInUse,
		jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount} {
		if errors.Is(err, permanent) {
			return fmt.Errorf("%w: %w", node.ErrMisconfigured, err)
		}
	}
	return err
}

// refuse returns which setting makes a bucket unfit, or nil.
func (c Config) refuse(s jetstream.StreamConfig) error {
	for _, rule := range []struct {
		ok   bool
		want string
		why  string
	}{
		{s.Storage == jetstream.FileStorage, "storage: file", "a server that restarts forgets the rest"},
		{s.Replicas == c.Replicas, fmt.Sprint("num_replicas: ", c.Replicas), "that is what Config.Replicas says"},
		{s.PersistMode != jetstream.AsyncPersistMode, "persist_mode: default",
			"another one acknowledges what is not written"},
		{s.MaxMsgsPerSubject == 1, "max_msgs_per_subject: 1 (history)", "old records would fill the disk"},
		{s.MaxAge == 0, "max_age: 0 (TTL)", "registers must never be forgotten"},
		{!s.AllowMsgTTL, "allow_msg_ttl: false", "registers must never be forgotten"},
		{s.Discard == jetstream.DiscardNew, "discard: new", "a full bucket must not forget registers"},
		{s.Retention == jetstream.LimitsPolicy, "retention: limits", "registers must never be forgotten"},
		{s.DenyDelete && s.DenyPurge && !s.AllowRollup, "deny_delete: true, deny_purge: true, allow_rollup_hdrs: false",
			"a program that removes a record removes a register"},
		{!s.AllowDirect && !s.MirrorDirect, "allow_direct: false, mirror_direct: false",
			"direct gets are answered with what was true some time ago"},
		{s.Mirror == nil && len(s.Sources) == 0, "no mirror and no sources",
			"others would write here, or the truth be elsewhere"},
		{!s.NoAck, "no_ack: false", "it would not be known what was written"},
		{s.SubjectTransform == nil && strings.Join(s.Subjects, " ") == c.subject(">"), "subjects: " + c.subject(">"),
			"records would be elsewhere"},
		{s.FirstSeq >= 1<<32, "first_seq: a random number", "a write on its way could hit a bucket that was made anew"},
	} {
		if !rule.ok {
			return fmt.Errorf("%w: the stream %s does not have %s: %s; make another bucket with natsnode.Create, or change it (nats stream edit)", node.ErrMisconfigured, s.Name, rule.want, rule.why)
		}
	}
	return nil
}
