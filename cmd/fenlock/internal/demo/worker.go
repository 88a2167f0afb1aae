//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence/fencehttp"
	"github.com/fenlock/fenlock/node/sqlnode"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// RunClient is a client of the scenes: a process of its own, which does what it reads on
// in, and says on out what came of it, until in ends.
func RunClient(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan order, 16)
	var broken error // read after orders was closed
	go func() {
		defer cancel() // nobody wants the lock any more that it may be waiting for
		defer close(orders)
		for lines := json.NewDecoder(in); ; {
			var o order
			if err := lines.Decode(&o); err != nil {
				if !errors.Is(err, io.EOF) {
					broken = fmt.Errorf("fenlock demo client is started by fenlock demo: %w", err)
				}
				return
			}
			orders <- o
		}
	}()
	w := worker{ctx: ctx, out: json.NewEncoder(out)}
	for o := range orders {
		w.say(w.do(o))
	}
	if w.locker != nil {
		w.locker.Close()
	}
	return broken
}

// worker has one lock at a time.
type worker struct {
	ctx    context.Context
	locker *fenlock.Locker
	lock   *fenlock.Lock

	mu  sync.Mutex
	out *json.Encoder
}

// say writes a report. An error means that the demo has ended, and so does in.
func (w *worker) say(r report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Encode(r)
}

func (w *worker) do(o order) report {
	if (o.Do == doOpen) != (w.locker == nil) {
		return report{What: failed, Text: "open comes first, and once"}
	}
	switch o.Do {
	case doOpen:
		return w.open(o)
	case doAcquire:
		return w.take(o, w.locker.Acquire)
	case doTry:
		return w.take(o, w.locker.TryAcquire)
	case doRead:
		return read(w.ctx, o.URL)
	}
	if w.lock == nil {
		return report{What: failed, Text: "there is no lock"}
	}
	switch o.Do {
	case doExtend:
		if err := w.lock.Extend(w.ctx); err != nil {
			return w.failure(err)
		}
		return report{What: extended, Left: w.lock.Remaining()}
	case doCheck:
		if w.lock.Context().Err() != nil {
			return w.failure(context.Cause(w.lock.Context()))
		}
		return report{What: checked, Left: w.lock.Remaining()}
	case doRelease:
		began := time.Now()
		if err := w.lock.Release(w.ctx); err != nil {
			return w.failure(err)
		}
		return report{What: released, When: began.UnixNano()}
	case doWrite:
		return w.write(o)
	}
	return report{What: failed, Text: "unknown order " + o.Do}
}

func (w *worker) open(o order) report {
	var nodes []fenlock.Node
	for _, url := range o.Nodes {
		n, err := open(url)
		if err != nil {
			return w.failure(err)
		}
		nodes = append(nodes, n)
	}
	locker, err := fenlock.New(fenlock.Config{
		Nodes: nodes, TTL: o.TTL, MaxTTL: o.MaxTTL, Label: o.Label, NodeTimeout: nodeTimeout(o.TTL),
		Observer: fenlock.Observer{Waiting: w.waiting, Node: func(c fenlock.NodeChange) { w.say(report{What: unwell, Text: c.String()}) }},
	})
	if err != nil {
		return w.failure(err)
	}
	w.locker = locker
	return report{What: opened}
}

// nodeTimeout is longer than usual: the machine may be busy with something else, and
// servers that are down refuse at once.
func nodeTimeout(ttl time.Duration) time.Duration { return min(ttl/5, time.Second) }

func open(url string) (fenlock.Node, error) {
	if strings.HasPrefix(url, "sqlite:") {
		return sqlnode.Open(url)
	}
	return valkeynode.Open(url)
}

func (w *worker) waiting(_ context.Context, _ string, why error) {
	r := w.failure(why)
	r.What = waiting
	w.say(r)
}

func (w *worker) take(o order, acquire func(context.Context, string, ...fenlock.Option) (*fenlock.Lock, error)) report {
	began := time.Now()
	lock, err := acquire(w.ctx, o.Name)
	if err != nil {
		return w.failure(err)
	}
	when := time.Now()
	w.lock = lock
	context.AfterFunc(lock.Context(), func() {
		if why := context.Cause(lock.Context()); !errors.Is(why, fenlock.ErrReleased) {
			w.say(report{What: lost, Text: why.Error()})
		}
	})
	return report{What: acquired, Token: lock.Token(), Waited: when.Sub(began), Left: lock.Remaining(), When: when.UnixNano()}
}

// failure is the report of an error.
func (w *worker) failure(err error) report {
	r := report{What: failed, Text: err.Error()}
	var held *fenlock.HeldError
	switch {
	case errors.As(err, &held):
		r.What, r.Ahead = refused, held.Ahead
	case errors.Is(err, fenlock.ErrLost):
		r.What = lost
	case errors.Is(err, fenlock.ErrNoQuorum):
		r.What = noQuorum
	}
	if w.lock != nil {
		r.Left = w.lock.Remaining()
	}
	return r
}

// resource is how a client reaches what is at a URL.
var resource = http.Client{Timeout: 5 * time.Second}

func read(ctx context.Context, url string) report {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return report{What: failed, Text: err.Error()}
	}
	return call(request)
}

// write does not ask whether the lock is still held: who asks can be stopped between the
// answer and the write.
func (w *worker) write(o order) report {
	body := strings.NewReader(strconv.Itoa(o.Value))
	request, err := http.NewRequestWithContext(w.ctx, http.MethodPut, o.URL, body)
	if err != nil {
		return report{What: failed, Text: err.Error()}
	}
	fencehttp.SetToken(request, w.lock.Token())
	r := call(request)
	if r.What == got {
		r.What = wrote
	}
	r.Token, r.Value = w.lock.Token(), o.Value
	return r
}

func call(request *http.Request) report {
	answer, err := resource.Do(request)
	if err != nil {
		return report{What: failed, Text: err.Error()}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return report{What: failed, Text: err.Error()}
	}
	if answer.StatusCode == http.StatusPreconditionFailed {
		return report{What: stale, Text: answer.Status}
	}
	value, err := strconv.Atoi(string(text))
	if err != nil || answer.StatusCode != http.StatusOK {
		return report{What: failed, Text: answer.Status + ": " + string(text)}
	}
	return report{What: got, Value: value}
}
