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
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencehttp"
)

// The lock of the scene.
const (
	lockName  = "demo/account"
	pausedTTL = 1500 * time.Millisecond
)

// order is what the scene tells a client process to do, a line of JSON. The client carries out one
// after the other, and answers each with a reply.
type order struct {
	Do    string `json:"do"`
	URL   string `json:"url,omitempty"`   // of the account
	Value int    `json:"value,omitempty"` // to write
}

// What a client can do.
const (
	doAcquire = "acquire" // wait for the lock, then read the account
	doCheck   = "check"   // is the lock still held?
	doWrite   = "write"   // the account, with the lock's token
	doRelease = "release"
)

// reply is what came of an order, a line of JSON.
type reply struct {
	Error   string        `json:"error,omitempty"`
	Token   fence.Token   `json:"token,omitempty"`
	Waited  time.Duration `json:"waited,omitempty"`
	Left    time.Duration `json:"left,omitempty"`    // validity: 0 if the lock is lost
	Balance int           `json:"balance,omitempty"` // as read
	Refused bool          `json:"refused,omitempty"` // the write, by the guard
}

// RunClient is a client of the scene paused. It is a process of its own, which does what it reads
// on in, and says on out what came of it, until in ends. Args are its name and the nodes' URLs.
func RunClient(args []string, in io.Reader, out io.Writer) error {
	const hint = "fenlock demo client is started by fenlock demo"
	if len(args) < 2 {
		return errors.New(hint)
	}
	locker, err := open(config(args[0], pausedTTL, pausedTTL), args[1:])
	if err != nil {
		return err
	}
	defer locker.Close()
	w := worker{locker: locker}
	for lines, answers := json.NewDecoder(in), json.NewEncoder(out); ; {
		var o order
		if err := lines.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", hint, err)
		}
		r, err := w.do(context.Background(), o)
		if err != nil {
			r.Error = err.Error()
		}
		if err := answers.Encode(r); err != nil {
			return err
		}
	}
}

// worker has one lock at a time.
type worker struct {
	locker *fenlock.Locker
	lock   *fenlock.Lock
}

func (w *worker) do(ctx context.Context, o order) (r reply, err error) {
	if w.lock == nil && o.Do != doAcquire {
		return r, errors.New("there is no lock")
	}
	switch o.Do {
	case doAcquire:
		began := time.Now()
		if w.lock, err = w.locker.Acquire(ctx, lockName); err != nil {
			return r, err
		}
		r.Token, r.Waited = w.lock.Token(), time.Since(began)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
		if err != nil {
			return r, err
		}
		return r, r.send(request)
	case doCheck:
		if w.lock.Context().Err() == nil {
			r.Left = w.lock.Remaining()
		}
		return r, nil
	case doWrite:
		// It does not ask whether the lock is still held: it could be stopped between the answer
		// and the write.
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, o.URL, strings.NewReader(strconv.Itoa(o.Value)))
		if err != nil {
			return r, err
		}
		fencehttp.SetToken(request, w.lock.Token())
		return r, r.send(request)
	case doRelease:
		return r, w.lock.Release(ctx)
	}
	return r, fmt.Errorf("unknown order %q", o.Do)
}

// accounts is how a client reaches an account. It uses a new connection each time, because the
// account may have closed an old one while the client was stopped.
var accounts = http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// send has the account answer a request.
func (r *reply) send(request *http.Request) error {
	answer, err := accounts.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusPreconditionFailed:
		r.Refused = true
		return nil
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	r.Balance, err = strconv.Atoi(string(text))
	return err
}
