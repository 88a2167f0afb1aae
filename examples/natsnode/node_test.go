package natsnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

func TestConformance(t *testing.T) {
	s := startServer(t, "always")
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		c := bucket(t, s)
		return nodetest.Harness{Node: open(t, s.addr, c), Other: open(t, s.addr, c), Wait: time.Sleep}
	})
}

// Eight clients count up a number that nothing but the lock protects.
func TestCounter(t *testing.T) {
	const clients, rounds = 8, 12
	s := startServer(t, "always")
	c := bucket(t, s)
	var counter, holders atomic.Int64
	var last fence.Token // under the lock
	var wait sync.WaitGroup
	for range clients {
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{openUnjoined(t, s.addr, c)}, NewServers: true,
			TTL: 10 * time.Second, NodeTimeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		wait.Go(func() {
			for range rounds {
				err := l.Do(t.Context(), "counter", func(_ context.Context, token fence.Token) error {
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					defer holders.Add(-1)
					if token <= last {
						t.Errorf("token %d after %d", token, last)
					}
					last = token
					seen := counter.Load()
					time.Sleep(time.Millisecond)
					counter.Store(seen + 1)
					return nil
				})
				if err != nil {
					t.Errorf("do: %v", err)
					return
				}
			}
		})
	}
	wait.Wait()
	if got := counter.Load(); got != clients*rounds {
		t.Errorf("counted to %d; want %d", got, clients*rounds)
	}
}

// A server that was killed has what it has acknowledged. (Also what was not synced: the
// kernel has that. What sync_interval is for needs a power cut.)
func TestRestartKeepsLeasesAndRegisters(t *testing.T) {
	s := startServer(t, "always")
	n := open(t, s.addr, bucket(t, s))
	held, free := request("held", "me", 70), request("free", "me", 80)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, free)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, free)))
	s.kill()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := n.Do(ctx, as(node.Acquire, request("free", "down", 0))); !errors.Is(err, node.ErrNotSent) ||
		!strings.Contains(err.Error(), n.String()) {
		t.Errorf("without a server: %v", err)
	}
	s.start()
	var a node.Answer
	var err error
	for range 200 { // until it has connected again
		if a, err = n.Do(t.Context(), as(node.Acquire, request("held", "other", 0))); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if want(t, node.Held)(a, err); a.HeldBy != "me" || a.Remaining <= 0 || a.Remaining > time.Minute {
		t.Errorf("held by %q for %v", a.HeldBy, a.Remaining)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, with(held, 0))))
	if a := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("free", "other", 0)))); a.Register != 81 {
		t.Errorf("granted %d; want 81", a.Register)
	}
}

// A write whose answer was lost is unknown, whether it was done or not, and is not sent
// again. Before a write, nothing is unknown.
func TestLostAnswer(t *testing.T) {
	s := startServer(t, "always")
	for _, c := range []struct {
		lost          string
		at            string
		deaf          bool
		done, notSent bool
	}{
		{"answer to the write", "HPUB $KV.", false, true, false},
		{"write", "HPUB $KV.", true, false, false},
		{"answer to the read", "PUB $JS.API.STREAM.MSG.GET.", false, false, true},
		{"answer about the time", "PUB $JS.API.STREAM.INFO.", false, false, true},
	} {
		t.Run(c.lost, func(t *testing.T) {
			config := bucket(t, s)
			between := &relay{at: []byte(c.at), deaf: c.deaf}
			n, other := open(t, s.addr, config, nats.SetCustomDialer(between)), open(t, s.addr, config)
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("other name", "", 7))))
			before := writes(t, s, config)
			between.armed.Store(true)
			r := request("a", "me", 7)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			a, err := n.Do(ctx, as(node.Acquire, r))
			if a != (node.Answer{}) || !errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, node.ErrNotSent) != c.notSent || !strings.Contains(err.Error(), n.String()) {
				t.Errorf("answered %+v, %v; want an error, not sent: %v", a, err, c.notSent)
			}
			if got := writes(t, s, config) - before; got > 1 || got == 1 != c.done {
				t.Errorf("%d writes; want one: %v", got, c.done)
			}
			wanted := node.Granted
			if c.done {
				wanted = node.Held
			}
			want(t, wanted)(other.Do(t.Context(), as(node.Acquire, request("a", "other", 0))))
		})
	}
}

func TestUnfitBucketIsRefused(t *testing.T) {
	s := startServer(t, "always")
	bucket(t, s) // stays: a server that deletes its last stream removes the folder of all of them beside the next create
	nc := connect(t, s.addr)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"storage: file":            func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist_mode: default":    func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"allow_direct: false":      func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"max_msgs_per_subject: 1":  func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"max_age: 0":               func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = time.Hour, time.Minute },
		"allow_msg_ttl: false":     func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"discard: new":             func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"retention: limits":        func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"deny_purge: true":         func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"deny_delete: true":        func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"allow_rollup_hdrs: false": func(c *jetstream.StreamConfig) { c.DenyPurge, c.AllowRollup = false, true },
		"no_ack: false":            func(c *jetstream.StreamConfig) { c.NoAck = true },
		"no mirror": func(c *jetstream.StreamConfig) {
			c.FirstSeq, c.Subjects, c.Mirror = 0, nil, &jetstream.StreamSource{Name: "other"}
		},
		"no sources": func(c *jetstream.StreamConfig) {
			c.Sources = []*jetstream.StreamSource{{Name: "other"}}
		},
		"subjects: $KV.SUBJECTS.>": func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more") },
		"num_replicas: 3":          nil, // there is one server
		"first_seq: a random":      func(c *jetstream.StreamConfig) { c.FirstSeq = 0 },
		"subjects: $KV.TRANSFORM.>": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "x.>"}
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := unused()
			if change == nil {
				c = bucket(t, s)
				c.Replicas = 3
			} else {
				if name := strings.TrimSuffix(strings.TrimPrefix(what, "subjects: $KV."), ".>"); name != what {
					c.Bucket = name
				}
				stream := jetstream.StreamConfig{
					Name: c.stream(), Subjects: []string{c.subject(">")}, Storage: jetstream.FileStorage, Replicas: 1,
					MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, FirstSeq: 1 << 40,
				}
				change(&stream)
				if _, err := js.CreateStream(t.Context(), stream); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { js.DeleteStream(context.Background(), c.stream()) })
			}
			n, err := Open(t.Context(), nc, c)
			if err == nil {
				n.Close()
			}
			if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), what) {
				t.Errorf("%v; want ErrMisconfigured with %q", err, what)
			}
		})
	}
	t.Run("changed while it is open", func(t *testing.T) {
		c := bucket(t, s)
		n := open(t, s.addr, c)
		stream := n.keys.stream.CachedInfo().Config
		stream.AllowDirect = true
		if _, err := js.UpdateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		_, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
		if !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
			!strings.Contains(err.Error(), "allow_direct") {
			t.Errorf("%v; want ErrMisconfigured", err)
		}
	})
	t.Run("made by nats.go", func(t *testing.T) {
		if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "common"}); err != nil {
			t.Fatal(err)
		}
		c := Config{Bucket: "common", Replicas: 1, SyncAlways: true}
		if _, err := Open(t.Context(), nc, c); !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("opened: %v", err)
		}
		if err := Create(t.Context(), nc, c); !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("created: %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if _, err := Open(t.Context(), nc, Config{Bucket: "nobody", Replicas: 1, SyncAlways: true}); !errors.Is(err,
			node.ErrMisconfigured) || !words(err.Error(), "nobody stream not found") {
			t.Error(err)
		}
	})
	t.Run("no word for sync_interval", func(t *testing.T) {
		c := bucket(t, s)
		c.SyncAlways = false
		if _, err := Open(t.Context(), nc, c); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "sync_interval: always") {
			t.Error(err)
		}
	})
	t.Run("connection that sends later", func(t *testing.T) {
		late, err := nats.Connect("nats://" + s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		if _, err := Open(t.Context(), late, bucket(t, s)); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "ReconnectBufSize(-1)") {
			t.Error(err)
		}
	})
}

// A program that wants to know before saying so can see it, as the package comment tells.
func TestMonitoringShowsSync(t *testing.T) {
	for sync, wanted := range map[string]bool{"always": true, "2m": false} {
		s := startServer(t, sync)
		answer, err := http.Get("http://" + s.monitor + "/jsz?config=1")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if err != nil || strings.Contains(string(text), `"sync_always": true`) != wanted ||
			!strings.Contains(string(text), "sync_interval") {
			t.Errorf("sync_interval %s: %v, %s", sync, err, text)
		}
	}
}

// A record that something else has written, or deleted, has lost its register.
func TestForgottenRecordsAreFound(t *testing.T) {
	s := startServer(t, "always")
	c := bucket(t, s)
	n := open(t, s.addr, c)
	r := request("a", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	for what, marker := range map[string]*nats.Msg{
		"deleted": {Subject: c.subject(fmt.Sprint(node.Stripe("a"))),
			Header: nats.Header{"KV-Operation": {"DEL"}}},
		"written by another": {Subject: c.subject(fmt.Sprint(node.Stripe("a"))), Data: []byte("{}")},
	} {
		if _, err := n.keys.js.PublishMsg(t.Context(), marker); err != nil {
			t.Fatal(err)
		}
		if a, err := n.Do(t.Context(), as(node.Extend, r)); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "is lost") {
			t.Errorf("%s: %+v, %v; want ErrMisconfigured", what, a, err)
		}
	}
	if err := n.keys.js.DeleteStream(t.Context(), c.stream()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Do(t.Context(), as(node.Extend, r)); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("without the bucket: %v; want ErrMisconfigured", err)
	}
}

// writes is how often a bucket was written to.
func writes(t testing.TB, s *server, c Config) uint64 {
	t.Helper()
	js, err := jetstream.New(connect(t, s.addr))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), c.stream())
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

var holder atomic.Int64

func request(name, label string, token fence.Token) node.Request {
	id := fmt.Sprintf("%032x", holder.Add(1))
	return node.Request{Name: name, Holder: node.NewHolder([node.IDLength]byte([]byte(id)), time.Now(), 0, label),
		TTL: time.Minute, Token: token}
}

// as is the request for an operation.
func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}

func with(r node.Request, token fence.Token) node.Request {
	r.Token = token
	return r
}

func want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("got %+v, %v; want %v", a, err, status)
		}
		return a
	}
}
