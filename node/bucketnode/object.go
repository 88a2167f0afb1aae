package bucketnode

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/engine"
)

// object is the one object of a node, for one process.
type object struct {
	*place
	key string

	mu   sync.Mutex
	last *snapshot // the newest that is known
}

// snapshot is the object as it was at a moment.
type snapshot struct {
	state *state // nil: there is none
	etag  string
	// clock is what the store's clock showed when the object was read, at most, and got when that was
	// by this machine's.
	clock, got time.Duration
	// modified is when the store says that the object was written, rounded down. 0: this process
	// wrote it, and has not asked.
	modified time.Duration
	setBack  bool // this process has seen a later one, or another one of the same number
}

const (
	objectName = "node" // under the prefix
	// anew is a parameter that makes each read's URL another one, so that no cache answers. A lease
	// that begins at the Date of an old answer is too short. Stores ignore what begins with x-.
	anew = "x-anew"
	// coarse is by how much the answer's Date, and the time of a modification, are late. They have
	// whole seconds, and some servers make them once in a second.
	coarse = 2 * time.Second
	// slack is by how much leases are longer for that. The last second is for the rate of this
	// machine's clock, which counts for a minute at most.
	slack = coarse + time.Second
	// late is how long after it was decided on a write may be carried out. One that was modified
	// later is a copy.
	late = 30 * time.Second
)

// here is what a store is called before anything is there.
func (o *object) here() string { return "nothing at " + o.endpoint + "/" + o.bucket + "/" + o.key }

// now is what the store's clock shows, at most, by what has passed here since the snapshot.
func (s *snapshot) now() time.Duration { return s.clock + max(0, clock.Now()-s.got) }

// copied reports whether the object is not what was written at this address. A note that counts
// from its own write does no harm when it is copied: it counts from the copy then.
func (s *snapshot) copied() bool {
	st := s.state
	return st != nil && (s.setBack || (st.Admitted || st.Since > 0) && s.modified > st.At+late)
}

// fresh reports whether it may be written over. An object that is put back has its earlier ETag. A
// write over what was read before that would succeed, and hide it from all. A state that was read
// so lately cannot have been put back in a way that is noticed (late).
func (s *snapshot) fresh() bool { return !s.copied() && clock.Now()-s.got < late }

// is reports whether a state that was written is what the object has.
func (s *snapshot) is(st *state) bool {
	return s.state != nil && s.state.Nonce == st.Nonce && !s.copied()
}

// votes reports whether the mark of admission is there, and is of this object.
func (s *snapshot) votes() bool { return s.state != nil && s.state.Admitted && !s.copied() }

// facts are what package admit decides by.
func (s *snapshot) facts(here string) admit.Facts {
	f := admit.Facts{Server: here, Cause: node.Unused, Untouched: true, State: s}
	st := s.state
	if st == nil {
		return f
	}
	f = admit.Facts{Server: st.Memory, Memory: st.Memory, Terms: st.Terms, Votes: s.votes(), Marked: st.Admitted,
		Recorded: st.Admitted || st.Terms != (admit.Terms{}) || len(st.Registers) > 0, Counted: !st.Admitted,
		Out: s.clock - s.since(), Cause: st.Cause, Untouched: !st.Admitted, Empty: st.Empty, State: s}
	if s.copied() {
		f.Memory += " copied at " + s.modified.String()
		if f.Counted, f.Cause = false, node.Replaced; s.setBack {
			f.Cause = node.SetBack
		}
	}
	return f
}

// since is when the note was written, at least. The time of a modification may be by another
// machine's clock than a Date is.
func (s *snapshot) since() time.Duration {
	if s.state.Since > 0 {
		return s.state.Since
	}
	return max(s.modified, s.state.At) + coarse
}

// read gets the object as it is now.
func (o *object) read(ctx context.Context) (*snapshot, error) {
	before := o.known()
	s, err := o.get(ctx, o.key)
	if err != nil {
		return nil, err
	}
	if st := s.state; st != nil && before != nil && before.state.Memory == st.Memory {
		was := before.state
		s.setBack = st.Write < was.Write || st.Write == was.Write && st.Nonce != was.Nonce
	}
	o.learn(s)
	return s, nil
}

func (o *object) known() *snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// learn notes what is known of the object, unless that is older than what was known. What was set
// back is not learnt, so that it is noticed until the store is out.
func (o *object) learn(s *snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.state != nil && !s.setBack && !o.last.newerThan(s) {
		o.last = s
	}
}

// newerThan reports whether a snapshot is of a later write than another one, or was read later.
func (s *snapshot) newerThan(other *snapshot) bool {
	switch {
	case s == nil:
		return false
	case s.state.Memory == other.state.Memory && s.state.Write != other.state.Write:
		return s.state.Write > other.state.Write
	}
	return s.got > other.got
}

// get gets an object. Its content is a state, unless there is none.
func (o *object) get(ctx context.Context, key string) (*snapshot, error) {
	var options minio.GetObjectOptions
	options.SetReqParam(anew, rand.Text())
	body, info, header, err := o.client.GetObject(ctx, o.bucket, key, options)
	got := clock.Now()
	var refused minio.ErrorResponse
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound && refused.Code == minio.NoSuchKey {
		return &snapshot{got: got}, nil
	}
	if err != nil {
		return nil, printable(err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxObject+1))
	if err != nil {
		return nil, err
	}
	if info.Size >= 0 && int64(len(data)) < min(info.Size, maxObject) {
		return nil, io.ErrUnexpectedEOF
	}
	date, err := http.ParseTime(header.Get("Date"))
	switch {
	case len(data) > maxObject:
		return nil, damaged("it has more than %d bytes", maxObject)
	case err != nil || date.Unix() <= 0 || info.LastModified.Unix() <= 0:
		return nil, engine.Misconfiguredf("the store's answers have no Date or no Last-Modified, by which leases end")
	case info.ETag == "":
		return nil, engine.Misconfiguredf("the store's answers have no ETag, which a write compares")
	case header.Get("Age") != "":
		return nil, engine.Misconfiguredf("a cache answers in place of the store (the answer has an Age): name the store itself")
	}
	st, err := parseState(data)
	if err != nil {
		return nil, err
	}
	return &snapshot{state: st, etag: info.ETag, clock: since1970(date), got: got, modified: since1970(info.LastModified)},
		nil
}

func since1970(t time.Time) time.Duration { return time.Duration(t.Unix()) * time.Second }

// write puts a state in the place of a snapshot, and fails unless that is what is there. A snapshot
// without a state is of a key that has no object.
func (o *object) write(ctx context.Context, over *snapshot, st *state) (*snapshot, error) {
	st.Nonce, st.At, st.Write = rand.Text(), over.now(), st.Write+1
	data, err := st.bytes()
	if err != nil {
		return nil, node.NotSent(err)
	}
	etag, err := o.put(ctx, o.key, data, over.etag)
	if err != nil {
		return nil, err
	}
	return &snapshot{state: st, etag: etag, clock: over.clock, got: over.got}, nil
}

// put writes an object, once, on the condition that the one there has an ETag; none if that is "".
// An error matches cas.ErrConflict or node.ErrNotSent if nothing was done and never will be.
func (o *object) put(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", node.NotSent(err)
	}
	options := minio.PutObjectOptions{ContentType: "text/plain", CacheControl: "no-store", DisableContentSha256: true}
	if etag == "" {
		options.SetMatchETagExcept("*")
	} else {
		options.SetMatchETag(etag)
	}
	// A bucket that keeps versions from being deleted (Object Lock) takes no object without the MD5.
	short, sum := md5.Sum(data), sha256.Sum256(data)
	info, err := o.client.PutObject(ctx, o.bucket, key, bytes.NewReader(data), int64(len(data)),
		base64.StdEncoding.EncodeToString(short[:]), hex.EncodeToString(sum[:]), options)
	if err == nil && info.ETag == "" {
		err = errors.New("the store's answer to a write has no ETag")
	}
	return info.ETag, unwritten(printable(err), etag != "")
}

// remove deletes an object that the node does not need.
func (o *object) remove(ctx context.Context, key string) error {
	return o.client.RemoveObject(ctx, o.bucket, key, minio.RemoveObjectOptions{})
}

// unwritten marks the error of a write that was not carried out, and never will be. The store has
// refused it, or nothing was sent. Whatever else went wrong, the outcome is unknown. Over says that
// there was an object, so that another client has removed one that is not there.
func unwritten(err error, over bool) error {
	var refused minio.ErrorResponse
	if !errors.As(err, &refused) {
		if notConnected(err) || errors.Is(err, node.ErrMisconfigured) {
			return node.NotSent(err)
		}
		return err
	}
	switch status := refused.StatusCode; {
	case status == http.StatusPreconditionFailed, status == http.StatusConflict,
		status == http.StatusNotFound && refused.Code == minio.NoSuchKey && over:
		return node.NotSent(fmt.Errorf("%w: %w", cas.ErrConflict, err))
	case status == http.StatusRequestTimeout, status == statusClientClosed: // a proxy may say so
		return err
	case status >= 300 && status < 500, refused.Code == "SlowDown", status == http.StatusNotImplemented:
		return node.NotSent(err)
	}
	return err
}

const statusClientClosed = 499
