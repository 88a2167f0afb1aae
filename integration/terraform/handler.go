package fenlockterraform

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// Bounds of what a Handler accepts; 413 is for more.
const (
	MaxState    = 64 << 20 // bytes
	MaxLockInfo = 64 << 10 // bytes
	maxID       = 256      // bytes
)

// DefaultWait is how long a request waits for other servers' turns.
const DefaultWait = 10 * time.Second

// Locks is where locks come from: a *fenlock.Locker or *fenlock.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error, opts ...fenlock.Option) error
}

// Handler is an http.Handler for states, whose names are the paths of requests. It is safe for concurrent use.
type Handler struct {
	locks  Locks
	prefix string
	store  Store
	opts   []fenlock.Option
}

// New returns a Handler. Its locks have the prefix, a slash and a state's name as their names: servers with the same store
// need the same prefix. The options are for each lock; WithWait is DefaultWait unless given. The error matches fenlock.ErrInvalid.
func New(locks Locks, prefix string, store Store, opts ...fenlock.Option) (*Handler, error) {
	if locks == nil || store == nil {
		return nil, fmt.Errorf("%w: fenlockterraform needs a Locker or Groups, and a Store, not nil", fenlock.ErrInvalid)
	}
	if len(prefix) > fenlock.MaxNameLength-maxName-1 {
		return nil, fmt.Errorf("%w: the prefix has %d bytes, at most %d leave room for names", fenlock.ErrInvalid, len(prefix), fenlock.MaxNameLength-maxName-1)
	}
	opts = append([]fenlock.Option{fenlock.WithWait(DefaultWait)}, opts...)
	if err := locks.Check(prefix, opts...); err != nil {
		return nil, err
	}
	return &Handler{locks, prefix, store, opts}, nil
}

// ServeHTTP answers GET, POST or PUT, DELETE, LOCK and UNLOCK, as the http backend of Terraform sends them.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if err := checkName(name); err != nil {
		// Not 404: Terraform takes that for a state which is empty yet, makes all that it describes, and hears only then that it
		// cannot be written.
		plainly(http.StatusBadRequest, err.Error()).write(w)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what has an ID that cannot be read is no request without one
		plainly(http.StatusBadRequest, "the query cannot be read").write(w)
		return
	}
	switch id := query.Get("ID"); r.Method {
	case http.MethodGet, http.MethodHead:
		h.get(w, r, name)
	case http.MethodPost, http.MethodPut:
		state, refused := body(w, r, MaxState)
		switch {
		case refused != nil:
			refused.write(w)
		case len(state) == 0:
			plainly(http.StatusBadRequest, "the state is empty").write(w)
		default:
			h.change(w, r, name, write(id, state))
		}
	case http.MethodDelete:
		h.change(w, r, name, write(id, nil))
	case "LOCK", "UNLOCK":
		info, refused := body(w, r, MaxLockInfo)
		if refused != nil {
			refused.write(w)
			return
		}
		id, err := lockID(info)
		switch {
		case r.Method == "UNLOCK" && len(bytes.TrimSpace(info)) == 0:
			h.change(w, r, name, unlock(""))
		case err != nil:
			plainly(http.StatusBadRequest, err.Error()).write(w)
		case r.Method == "LOCK":
			h.change(w, r, name, lock(id, info))
		default:
			h.change(w, r, name, unlock(id))
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, DELETE, LOCK, UNLOCK")
		plainly(http.StatusMethodNotAllowed, "the method is not one of "+w.Header().Get("Allow")).write(w)
	}
}

// lockID returns the ID of a LockInfo.
func lockID(info []byte) (string, error) {
	var of struct{ ID string }
	if err := json.Unmarshal(info, &of); err != nil {
		return "", fmt.Errorf("the body is no LockInfo: %w", err)
	}
	if of.ID == "" || len(of.ID) > maxID {
		return "", fmt.Errorf("the ID of the LockInfo has %d bytes, not 1 to %d", len(of.ID), maxID)
	}
	return of.ID, nil
}

// body reads all of a body before anything is locked: a client that sends it slowly keeps nobody waiting.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *answer) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, plainly(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", limit))
	}
	if err != nil {
		return nil, plainly(http.StatusBadRequest, err.Error())
	}
	if sum := r.Header.Get("Content-MD5"); sum != "" && sum != checksum(text) {
		return nil, plainly(http.StatusBadRequest, "the body does not have its Content-MD5")
	}
	return text, nil
}

func checksum(text []byte) string {
	sum := md5.Sum(text)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// get needs no lock: a record is there as a whole, or not at all.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, name string) {
	record, err := h.store.Load(r.Context(), name)
	switch {
	case err != nil:
		unless(err).write(w)
	case len(record.State) == 0:
		plainly(http.StatusNotFound, "there is no such state").write(w)
	default:
		w.Header().Set("Content-MD5", checksum(record.State))
		asJSON(http.StatusOK, record.State).write(w)
	}
}

// change answers what decide says, after what that has changed is stored. A change that is stored is
// answered as one, whatever became of the lock: no other server has written in between.
func (h *Handler) change(w http.ResponseWriter, r *http.Request, name string, decide decision) {
	var done *answer
	err := h.locks.Do(r.Context(), h.prefix+"/"+name, func(ctx context.Context, _ fence.Token) error {
		record, err := h.store.Load(ctx, name)
		if err != nil {
			return err
		}
		a, changes := decide(&record)
		if changes {
			// Whoever has gone sends it again, elsewhere perhaps, and then goes on: that is not to be overwritten by this.
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			record.Version++
			if err := h.store.Save(ctx, name, record); err != nil {
				return err
			}
		}
		done = a
		return nil
	}, h.opts...)
	if done == nil {
		done = unless(err)
	}
	done.write(w)
}
