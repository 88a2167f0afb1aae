package natsnode

import (
	"context"
	"encoding/json"
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
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// Eight clients count up a number that nothing but the lock protects.
func TestCounter(t *testing.T) {
	const clients, rounds = 8, 12
	url := bucket(t, testserver.StartNATS(t))
	var counter, holders atomic.Int64
	var last fence.Token // under the lock
	var wait sync.WaitGroup
	for range clients {
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{unjoined(t, url)}, NewServers: true,
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
	s := testserver.StartNATS(t)
	n := open(t, bucket(t, s))
	held, free := request("held", "me", 70), request("free", "me", 80)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, free)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, free)))
	s.Kill()
	if _, err := n.Do(t.Context(), as(node.Acquire, request("free", "down", 0))); !errors.Is(err, node.ErrNotSent) ||
		errors.Is(err, node.ErrMisconfigured) || !words(err.Error(), n.String()+" nothing listens there") {
		t.Errorf("without a server: %v", err)
	}
	s.Restart()
	if a := want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("held", "other", 0)))); a.HeldBy != "me" ||
		a.Remaining <= 0 || a.Remaining > time.Minute {
		t.Errorf("held by %q for %v", a.HeldBy, a.Remaining)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, with(held, 0))))
	if a := want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("free", "other", 0)))); a.Register != 81 {
		t.Errorf("granted %d; want 81", a.Register)
	}
}

// A server that starts without its files has no bucket, and makes none.
func TestEmptyServerGrantsNothing(t *testing.T) {
	s := testserver.StartNATS(t)
	n := open(t, bucket(t, s))
	r := request("a", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	s.Kill()
	s.Wipe()
	s.Restart()
	if a, err := n.Do(t.Context(), as(node.Extend, r)); !errors.Is(err, node.ErrMisconfigured) ||
		!words(err.Error(), "no such bucket fenlock migrate") {
		t.Errorf("%+v, %v", a, err)
	}
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, node.Rejoining)(n.Do(t.Context(), as(node.Acquire, request("b", "", 0))))
}

// A server that stands still answers nothing, and what was asked meanwhile is not done twice.
func TestServerThatStandsStill(t *testing.T) {
	s := testserver.StartNATS(t)
	n := open(t, bucket(t, s))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("other", "", 7))))
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := n.Do(ctx, as(node.Acquire, request("a", "", 7))); !errors.Is(err, context.DeadlineExceeded) ||
		!errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
	eventually(t, func(context.Context) error { // the connection is given up
		n.link.mu.Lock()
		defer n.link.mu.Unlock()
		if !n.link.now.nc.IsClosed() {
			return errors.New("the connection is open")
		}
		return nil
	})
	if _, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 7))); err == nil ||
		!words(err.Error(), "does the server stand still") {
		t.Errorf("%v", err)
	}
	s.Resume()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 7))))
}

// A write whose answer was lost is unknown, and is not sent again. Before a write, nothing is
// unknown.
func TestLostAnswer(t *testing.T) {
	s := testserver.StartNATS(t)
	for what, c := range map[string]struct {
		lose string // the answer to this request, or the request
		deaf bool
	}{
		"answer to the write":   {"HPUB $KV.", false},
		"write":                 {"HPUB $KV.", true},
		"answer to the read":    {"PUB $JS.API.STREAM.MSG.GET.", false},
		"answer about the time": {"PUB $JS.API.STREAM.INFO.", false},
	} {
		t.Run(what, func(t *testing.T) {
			url := bucket(t, s)
			between := newRelay(t, s.Addr())
			n, other := open(t, strings.Replace(url, s.Addr(), between.Addr(), 1)+"&name=n"), open(t, url+"&name=n")
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("other name", "", 7))))
			before := writes(t, s, n)
			between.lose(c.lose, c.deaf)
			write := strings.HasPrefix(c.lose, "HPUB")
			done := write && !c.deaf
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			a, err := n.Do(ctx, as(node.Acquire, request("a", "me", 7)))
			if a != (node.Answer{}) || !errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, node.ErrNotSent) == write || !strings.Contains(err.Error(), n.String()) {
				t.Errorf("answered %+v, %v; want an error, not sent: %v", a, err, !write)
			}
			if got := writes(t, s, n) - before; got > 1 || got == 1 != done {
				t.Errorf("%d writes; want one: %v", got, done)
			}
			wanted := node.Granted
			if done {
				wanted = node.Held
			}
			want(t, wanted)(other.Do(t.Context(), as(node.Acquire, request("a", "other", 0))))
		})
	}
}

func TestUnfitBucketIsRefused(t *testing.T) {
	s := testserver.StartNATS(t)
	bucket(t, s) // stays: a server that deletes its last stream removes the folder of all of them
	js := admin(t, s)
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"storage: file":            func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist_mode: default":    func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"allow_direct: false":      func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"max_msgs_per_subject: 1":  func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"max_msgs: -1":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 4000 },
		"max_msg_size: -1":         func(c *jetstream.StreamConfig) { c.MaxMsgSize = 4000 },
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
		"subjects: $KV.":                func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more") },
		"fenlock_sync_interval: always": func(c *jetstream.StreamConfig) { c.Metadata = nil },
		"num_replicas: 3":               nil, // there is one server
		"first_seq: a random":           func(c *jetstream.StreamConfig) { c.FirstSeq = 0 },
		"subjects: $KV": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "x.>"}
		},
	} {
		t.Run(what, func(t *testing.T) {
			n := unjoined(t, unused(s))
			stream := n.link.config()
			if change == nil {
				n.link.replicas = 3
			} else {
				change(&stream)
			}
			if _, err := js.CreateStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { js.DeleteStream(context.Background(), n.link.stream()) })
			join(t, n)
			_, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
			if !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
				!strings.Contains(err.Error(), what) {
				t.Errorf("%v; want ErrMisconfigured with %q", err, what)
			}
			if err := n.Migrate(t.Context()); !errors.Is(err, node.ErrMisconfigured) ||
				change != nil && !strings.Contains(err.Error(), what) {
				t.Errorf("migrate: %v; want ErrMisconfigured with %q", err, what)
			}
		})
	}
	t.Run("changed while it is open", func(t *testing.T) {
		n := open(t, bucket(t, s))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("b", "", 0))))
		stream := n.link.config()
		old, err := js.Stream(t.Context(), n.link.stream())
		if err != nil {
			t.Fatal(err)
		}
		stream.FirstSeq, stream.AllowDirect = old.CachedInfo().Config.FirstSeq, true
		if _, err := js.UpdateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		_, err = n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
		if !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
			!strings.Contains(err.Error(), "allow_direct") {
			t.Errorf("%v; want ErrMisconfigured", err)
		}
	})
	t.Run("made by nats.go", func(t *testing.T) {
		n := open(t, unused(s))
		if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: n.link.bucket}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0))); !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("opened: %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		n := open(t, unused(s))
		if _, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0))); !errors.Is(err, node.ErrMisconfigured) ||
			!words(err.Error(), "no such bucket fenlock migrate replicas= sync_interval=always") {
			t.Error(err)
		}
	})
	t.Run("no word for sync_interval", func(t *testing.T) {
		n := unjoined(t, strings.Replace(unused(s), "sync_interval=always&", "", 1))
		if err := n.Migrate(t.Context()); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "sync_interval: always") {
			t.Error(err)
		}
		if _, err := js.Stream(t.Context(), n.link.stream()); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("it was made: %v", err)
		}
	})
}

// Migrate may be repeated, and what Schema prints makes the same bucket.
func TestMigrate(t *testing.T) {
	s := testserver.StartNATS(t)
	url := bucket(t, s)
	n := open(t, url)
	r := request("a", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))

	var config jetstream.StreamConfig
	other := unjoined(t, unused(s))
	if err := json.Unmarshal([]byte(other.Schema()), &config); err != nil {
		t.Fatal(err)
	}
	if _, err := admin(t, s).CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	join(t, other)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, r)))
}

// An operator that wants to know can see it, as README.md tells.
func TestMonitoringShowsSync(t *testing.T) {
	for config, wanted := range map[string]bool{"": true, "jetstream { sync_interval: 2m }": false} {
		s := testserver.StartNATS(t, config)
		answer, err := http.Get("http://" + s.Monitor + "/jsz?config=1")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if err != nil || strings.Contains(string(text), `"sync_always": true`) != wanted ||
			!strings.Contains(string(text), "sync_interval") {
			t.Errorf("%s: %v, %s", config, err, text)
		}
	}
}

// A record that something else has written, or deleted, has lost its register.
func TestForgottenRecordsAreFound(t *testing.T) {
	s := testserver.StartNATS(t)
	n := open(t, bucket(t, s))
	r := request("a", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	js := admin(t, s)
	for what, marker := range map[string]*nats.Msg{
		"deleted": {Subject: n.link.subject(fmt.Sprint(node.Stripe("a"))),
			Header: nats.Header{"KV-Operation": {"DEL"}}},
		"written by another": {Subject: n.link.subject(fmt.Sprint(node.Stripe("a"))), Data: []byte("{}")},
	} {
		if _, err := js.PublishMsg(t.Context(), marker); err != nil {
			t.Fatal(err)
		}
		if a, err := n.Do(t.Context(), as(node.Extend, r)); !errors.Is(err, node.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "is lost") {
			t.Errorf("%s: %+v, %v; want ErrMisconfigured", what, a, err)
		}
	}
	if err := js.DeleteStream(t.Context(), n.link.stream()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Do(t.Context(), as(node.Extend, r)); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("without the bucket: %v; want ErrMisconfigured", err)
	}
}

// A bucket that is full grants nothing more, says so, and lets a held lock be released.
func TestFullBucket(t *testing.T) {
	s := testserver.StartNATS(t)
	n := open(t, unused(s))
	config := n.link.config()
	config.MaxBytes = 4 << 10
	if _, err := admin(t, s).CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		a, err := n.Do(t.Context(), as(node.Acquire, request(fmt.Sprint("name ", i), "me", 0)))
		if err == nil {
			want(t, node.Granted)(a, err)
			continue
		}
		if !errors.Is(err, node.ErrNotSent) || errors.Is(err, node.ErrMisconfigured) ||
			!words(err.Error(), "full max_bytes") {
			t.Errorf("%v", err)
		}
		return
	}
	t.Error("it is not full")
}

// A waiter is notified: it takes no question of its own to get the lock.
func TestWaiterIsNotified(t *testing.T) {
	s := testserver.StartNATS(t)
	n, other := open(t, bucket(t, s)), (*Node)(nil)
	other = open(t, "nats://"+s.Addr()+"/"+n.link.bucket)
	client, heard := strings.Repeat("1", node.IDLength), make(chan string, 10)
	if err := other.Listen(t.Context(), client, func(notice string) { heard <- notice }); err != nil {
		t.Fatal(err)
	}
	r := request("a", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	w := as(node.Acquire, request("a", "waiter", 0))
	w.Place = node.Place{Waiter: client + ":1", Stamp: 1}
	want(t, node.Held)(other.Do(t.Context(), w))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	if got := <-heard; !strings.HasPrefix(got, client+":1") {
		t.Errorf("heard %q", got)
	}
	if is, err := n.store.Reachable(t.Context(), cas.Loaded{}, strings.Repeat("2", node.IDLength)); is || err != nil {
		t.Errorf("a client that does not listen is reachable: %v, %v", is, err)
	}
	other.Close()
	eventually(t, func(ctx context.Context) error {
		if is, err := n.store.Reachable(ctx, cas.Loaded{}, client); is || err != nil {
			return fmt.Errorf("reachable after its end: %v, %w", is, err)
		}
		return nil
	})
}

// writes is how often a bucket was written to.
func writes(t testing.TB, s *testserver.NATS, n *Node) uint64 {
	t.Helper()
	stream, err := admin(t, s).Stream(t.Context(), n.link.stream())
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}
