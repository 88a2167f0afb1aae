package natsnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node/engine"
)

// syncKey is where a bucket keeps the operator's word, in the metadata of its stream.
const syncKey = "fenlock_sync_interval"

// needsSync is why the word is needed, and how it is given.
const needsSync = "by default NATS loses what it has acknowledged with the power: set jetstream " +
	"{ sync_interval: always } on all servers that may have the bucket, then say so by sync_interval=always in the URL of fenlock migrate"

// config is what a bucket has to be.
func (p *place) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: p.stream(), Description: "locks of fenlock",
		Subjects: []string{p.subject(">")},
		Storage:  jetstream.FileStorage, Replicas: max(p.replicas, 1),
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		DenyDelete: true, DenyPurge: true,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		// No two buckets have a revision in common: a write that was meant for one fails in the other.
		FirstSeq: 1<<32 + rand.Uint64N(1<<52),
		Metadata: map[string]string{syncKey: "always"},
	}
}

// create makes the bucket.
func (l *link) create(ctx context.Context) error {
	if !l.synced {
		return engine.Misconfiguredf("%s", needsSync)
	}
	c, err := l.open(ctx)
	if err != nil {
		return err
	}
	ctx, over := c.asks(ctx, apiCreate)
	defer over()
	config := l.config()
	if _, err = c.js.CreateStream(ctx, config); !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return c.explain(err, apiCreate)
	}
	old, err := c.js.Stream(ctx, config.Name)
	if err != nil {
		return c.explain(err, apiInfo)
	}
	return l.refuse(old.CachedInfo().Config)
}

// refuse returns which setting makes a bucket unfit, or nil.
func (p *place) refuse(s jetstream.StreamConfig) error {
	for _, rule := range []struct {
		ok   bool
		want string
		why  string
	}{
		{s.Storage == jetstream.FileStorage, "storage: file", "a server that restarts forgets the rest"},
		{p.replicas == 0 || s.Replicas == p.replicas, fmt.Sprint("num_replicas: ", p.replicas), "that is what the URL says"},
		{s.Metadata[syncKey] == "always", "the metadata " + syncKey + ": always",
			"no operator has asserted that its servers sync each write"},
		{s.PersistMode != jetstream.AsyncPersistMode, "persist_mode: default",
			"another one acknowledges what is not written"},
		{s.MaxMsgsPerSubject == 1, "max_msgs_per_subject: 1 (history)", "old records would fill the disk"},
		{s.MaxMsgs < 0 && s.MaxMsgSize < 0, "max_msgs: -1, max_msg_size: -1", "some names could never be locked"},
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
		{s.SubjectTransform == nil && strings.Join(s.Subjects, " ") == p.subject(">"), "subjects: " + p.subject(">"),
			"records would be elsewhere"},
		{s.FirstSeq >= 1<<32, "first_seq: a random number", "a write on its way could hit a bucket that was made anew"},
	} {
		if !rule.ok {
			return engine.Misconfiguredf("the stream %s does not have %s: %s; it has to be made by fenlock migrate "+
				"(or, if nats stream edit can, changed)", s.Name, rule.want, rule.why)
		}
	}
	return nil
}
