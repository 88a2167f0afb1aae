// Package fences3 writes objects of an S3-like store under fencing tokens. An object that was
// written under a token is never overwritten under a smaller one.
//
//	guard := &fences3.Guard{Bucket: "https://s3.eu-central-1.amazonaws.com/my-bucket",
//		Client: &http.Client{Transport: fences3.Signer{Region: "eu-central-1", AccessKey: ..., SecretKey: ...}}}
//
//	err := guard.Write(ctx, "reports/today.json", lock.Token(), func(old []byte, stamp string) ([]byte, error) {
//		return json.Marshal(Report{Fence: stamp, ...})
//	})
//	// errors.Is(err, fence.ErrStale): the lock is somebody else's by now
//
// # How it holds
//
// The token is in the object's metadata. Write reads the object, refuses if its token is larger,
// and writes it on the condition that it still is what was read. That is If-Match with its ETag, or
// If-None-Match: * for a new object. If not, it begins again. So there is no moment between the
// check and the write, and a write that arrives late finds another object.
//
// That needs ETags that never come back. On most stores they are a hash of the content. An object
// which gets an old content again has an old ETag there, and a write that was delayed since would
// pass. Therefore the content must contain a stamp, which is different each time. Write looks for
// it and refuses content without it. A field of a JSON object or a comment will do.
//
// Some stores ignore conditions, and would write in any case, or carry out several writes over one
// object that come at once. Before its first write, a Guard tries that out on an object of its own,
// and refuses such a store: ErrUnconditional.
//
// All who write the object have to do it through a Guard. To delete it lets old tokens in again.
package fences3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// ErrUnconditional says that a store does not keep the conditions of a write, or not all
// of them, so that it cannot be guarded. Nothing was written but the Guard's own object.
var ErrUnconditional = errors.New("fences3: the store does not keep conditions")

// Guard writes objects of a bucket. It must not be copied after its first use, is safe for
// concurrent use, and works between processes.
type Guard struct {
	// Bucket is the URL of the bucket; a key is added to it, after a slash. Also with a
	// prefix: https://host/bucket/prefix.
	Bucket string
	// Client sends the requests. It has to sign them, see Signer, and must not repeat them:
	// http.Client does not, but wrappers of it may. Nil means http.DefaultClient.
	Client *http.Client
	// MaxSize is how long an object may be, in bytes, since it is read as a whole. 0 means
	// 16 MiB.
	MaxSize int64
	// Refused is told of each write that is refused for its token, before Write returns; ctx is
	// Write's. It may be nil. It must be safe for concurrent use.
	Refused func(ctx context.Context, e *fence.StaleError)

	mu    sync.Mutex
	tried bool // the store keeps conditions
}

const (
	header      = "X-Amz-Meta-Fenlock-Token"
	defaultSize = 16 << 20
	probePrefix = "fenlock-probe-" // of the key of the object on which conditions are tried
)

// object is what is there under a key.
type object struct {
	etag    string // "" if there is none
	token   fence.Token
	content []byte
}

// Write writes an object under a token. Content makes what is to be written, with the stamp
// somewhere in it, from what is there: nil if there is nothing. It may be called several times,
// whenever another writer was faster.
//
// It returns nil if the object was written. Otherwise:
//   - a *fence.StaleError (matches fence.ErrStale) if the object has a larger token.
//     Retrying with the same token cannot succeed.
//   - an error that matches fence.ErrInvalidToken if t is not valid, or the error of
//     content, or one that says that the stamp is missing. Nothing was written.
//   - an error that matches ErrUnconditional, see there.
//   - any other error. The object may have been written or not. If ctx has ended or the connection
//     was lost, it may still be, unless another writer is first.
func (g *Guard) Write(ctx context.Context, key string, t fence.Token,
	content func(old []byte, stamp string) ([]byte, error)) error {
	if !t.Valid() {
		return fmt.Errorf("%w: %d", fence.ErrInvalidToken, uint64(t))
	}
	if err := g.try(ctx); err != nil {
		return fmt.Errorf("fences3: writing %q: %w", key, err)
	}
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		o, err := g.read(ctx, key)
		if err != nil {
			return fmt.Errorf("fences3: writing %q: reading what is there: %w", key, err)
		}
		if o.token > t {
			stale := &fence.StaleError{Resource: key, Token: t, Newest: o.token}
			if g.Refused != nil {
				g.Refused(ctx, stale)
			}
			return stale
		}
		stamp := "fence-" + t.String() + "-" + rand.Text()
		body, err := content(o.content, stamp)
		if err != nil {
			return err
		}
		if !bytes.Contains(body, []byte(stamp)) {
			return fmt.Errorf("fences3: writing %q: the content does not contain the stamp; nothing was written", key)
		}
		if int64(len(body)) > g.maxSize() {
			return fmt.Errorf("fences3: writing %q: the content has %d bytes, more than MaxSize; nothing was written", key,
				len(body))
		}
		is, err := g.write(ctx, key, t, body, o.etag)
		if err != nil {
			return fmt.Errorf("fences3: writing %q: %w", key, err)
		}
		if is {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("fences3: writing %q: %w; nothing was written", key, ctx.Err())
		}
	}
}

// read returns what is there under a key. An object that no Guard has written has the
// token 0.
func (g *Guard) read(ctx context.Context, key string) (o object, err error) {
	status, head, body, err := g.send(ctx, http.MethodGet, key, nil, nil)
	switch {
	case err != nil:
		return o, err
	case status == http.StatusNotFound:
		return o, nil
	case status != http.StatusOK:
		return o, problem(status, body)
	}
	if o.etag = head.Get("ETag"); o.etag == "" || strings.HasPrefix(o.etag, "W/") {
		return o, fmt.Errorf("%w: it gives the ETag %q", ErrUnconditional, o.etag)
	}
	if text := head.Get(header); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if o.token = fence.Token(n); err != nil || !o.token.Valid() {
			return o, fmt.Errorf("the object's metadata has the token %.30q, which is invalid", text)
		}
	}
	o.content = body
	return o, nil
}

// write writes an object if it is what was read, and reports whether it was.
func (g *Guard) write(ctx context.Context, key string, t fence.Token, body []byte, etag string) (is bool, err error) {
	// A bucket that keeps versions from being deleted (Object Lock) takes no object without the hash.
	sum := md5.Sum(body)
	with := http.Header{header: {t.String()}, "Content-Md5": {base64.StdEncoding.EncodeToString(sum[:])}}
	if etag != "" {
		with.Set("If-Match", etag)
	} else {
		with.Set("If-None-Match", "*")
	}
	status, _, said, err := g.send(ctx, http.MethodPut, key, with, body)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusOK, status == http.StatusCreated, status == http.StatusNoContent:
		return true, nil
	case status == http.StatusPreconditionFailed, status == http.StatusConflict, // another writer, before or right now
		status == http.StatusNotFound && etag != "" && !bytes.Contains(said, []byte("NoSuchBucket")): // has deleted it
		return false, nil
	case status == http.StatusNotImplemented:
		return false, fmt.Errorf("%w: %w", ErrUnconditional, problem(status, said))
	}
	return false, problem(status, said)
}

// try finds out whether the store keeps conditions, once.
func (g *Guard) try(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tried {
		return nil
	}
	key := probePrefix + rand.Text()
	// It is removed in any case; what cannot be is small.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		g.send(ctx, http.MethodDelete, key, nil, nil)
	}()
	first, second, third := []byte("first"), []byte("second"), []byte("third")
	var was string // the ETag of the first
	for _, step := range []struct {
		what string
		body []byte
		etag func(object) string
		want bool
	}{
		{"a new object was not written with If-None-Match: *", first, func(object) string { return "" }, true},
		{"an object was overwritten in spite of If-None-Match: *", second, func(object) string { return "" }, false},
		{"an object was not written with If-Match and its ETag", second, func(o object) string { return o.etag }, true},
		{"an object was overwritten in spite of If-Match with an earlier ETag", third,
			func(object) string { return was }, false},
	} {
		before, err := g.read(ctx, key)
		if err != nil {
			return err
		}
		is, err := g.write(ctx, key, 7, step.body, step.etag(before))
		if err != nil {
			return err
		}
		after, err := g.read(ctx, key)
		if err != nil {
			return err
		}
		changed := after.etag != before.etag || string(after.content) != string(before.content)
		switch {
		case is != step.want || changed != step.want:
			return fmt.Errorf("%w: %s", ErrUnconditional, step.what)
		case after.token != 7 || string(after.content) != string(map[bool][]byte{true: step.body,
			false: before.content}[step.want]):
			return fmt.Errorf("%w: what was written is not what is read afterwards", ErrUnconditional)
		}
		was = cmp.Or(was, after.etag)
	}
	if err := g.race(ctx, key); err != nil {
		return err
	}
	g.tried = true
	return nil
}

// racers is how many writes over one object are sent at once.
const racers = 4

// race returns an error if a store carries out several writes over one object that come at once.
// Such a store looks at the condition, and writes a moment later.
func (g *Guard) race(ctx context.Context, key string) error {
	over, err := g.read(ctx, key)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var won atomic.Int32
	for i := range racers {
		all.Go(func() { // one that fails has not won, and is no reason to refuse the store
			if is, err := g.write(ctx, key, 7, fmt.Append(nil, "racer ", i), over.etag); err == nil && is {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() > 1 {
		return fmt.Errorf("%w: %d writes over one object that came at once were all carried out", ErrUnconditional,
			won.Load())
	}
	return nil
}

func (g *Guard) maxSize() int64 { return cmp.Or(g.MaxSize, defaultSize) }

// send sends one request, and returns the whole answer.
func (g *Guard) send(ctx context.Context, method, key string, with http.Header, body []byte) (status int,
	head http.Header, said []byte, err error) {
	u, err := url.Parse(g.Bucket)
	if err != nil || u.Host == "" || u.RawQuery != "" {
		return 0, nil, nil, errors.New("the guard's Bucket is not the URL of a bucket")
	}
	if key == "" || strings.HasPrefix(key, "/") {
		return 0, nil, nil, errors.New("the key is empty or begins with a slash")
	}
	// Each part by itself: "a/../b" is a key like any other.
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + key
	u.RawPath = escapePath(u.Path)
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.URL = u
	for name, values := range with {
		r.Header[name] = values
	}
	client := g.Client
	if client == nil {
		client = http.DefaultClient
	}
	// A redirection would lead a signed request elsewhere.
	plain := *client
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := plain.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	said, err = io.ReadAll(io.LimitReader(answer.Body, g.maxSize()+1))
	if err == nil && int64(len(said)) > g.maxSize() {
		err = errors.New("the object is longer than MaxSize")
	}
	return answer.StatusCode, answer.Header, said, err
}

// problem makes an error of what a store says, which is XML with a code in it.
func problem(status int, said []byte) error {
	_, rest, _ := bytes.Cut(said, []byte("<Code>"))
	code, _, ok := bytes.Cut(rest, []byte("</Code>"))
	if !ok || len(code) > 100 {
		return fmt.Errorf("the store answers %d %s", status, http.StatusText(status))
	}
	return fmt.Errorf("the store answers %d %s, %.100q", status, http.StatusText(status), code)
}
