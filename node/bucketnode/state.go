package bucketnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// state is all that a node remembers, the content of its one object.
type state struct {
	// Nonce makes the content, and so the ETag, one that was never there before. Write counts the
	// writes of this memory.
	Nonce string
	Write uint64
	// At is what the store's clock showed when this was written, at most. An object that was
	// modified long after that was copied from elsewhere.
	At time.Duration

	Memory   string // made up with each note that the store is out, and kept by the mark
	Admitted bool   // the mark of admission
	Terms    admit.Terms
	Empty    []string   `json:",omitempty"` // as in node.Registers
	Cause    node.Cause `json:",omitempty"` // of a note
	// Since is when the note was written, by the store's clock, at least. 0: with this write.
	Since time.Duration `json:",omitempty"`
	// Proved says of endpoints when it was seen there that the store keeps conditions.
	Proved map[string]time.Duration

	Registers map[int]fence.Token // by stripe
	Leases    map[int][]byte      // by stripe, as cas.Record has them
}

// head begins each object, with the number of its format.
const (
	head       = "fenlock bucket 1\n"
	headOfKind = "fenlock "
)

// maxObject bounds what is read and written, in bytes.
const maxObject = 8 << 20

const (
	mostProved = 32 // endpoints
	// proofLife is for how long a proof is believed. A proxy may be put there that drops conditions.
	proofLife = 24 * time.Hour
)

// bytes returns the state as the content of the object.
func (st *state) bytes() ([]byte, error) {
	text, err := json.Marshal(st)
	if err == nil && len(head)+len(text) > maxObject {
		err = fmt.Errorf("all leases of the node are %d bytes; at most %d are kept: spread the names over several prefixes",
			len(text), maxObject)
	}
	return append([]byte(head), text...), err
}

// parseState reads the content of the object, which anything may have written. The error matches
// node.ErrMisconfigured.
func parseState(b []byte) (*state, error) {
	text, ours := bytes.CutPrefix(b, []byte(head))
	switch {
	case ours:
	case bytes.HasPrefix(b, []byte(headOfKind)):
		line, _, _ := bytes.Cut(b[:min(len(b), 40)], []byte("\n"))
		return nil, engine.Misconfiguredf("the object has the format %q, and this program knows %q: use one version of fenlock",
			line, head[:len(head)-1])
	default:
		return nil, engine.Misconfiguredf("the object was written by something that is not fenlock, so that what fenlock had there is lost: choose another prefix, or remove the object when no lock is held")
	}
	st := &state{}
	if err := json.Unmarshal(text, st); err != nil {
		return nil, damaged("it cannot be read: %w", err)
	}
	if st.Nonce == "" || st.Memory == "" || st.At < 0 || st.Since < 0 || st.Terms.MaxTTL < 0 {
		return nil, damaged("a part is missing")
	}
	for stripe, token := range st.Registers {
		if stripe < 0 || stripe >= node.Stripes || !token.Valid() {
			return nil, damaged("stripe %d has the register %d", stripe, uint64(token))
		}
	}
	for stripe := range st.Leases {
		if err := (cas.Record{Leases: st.Leases[stripe]}).Check(); stripe < 0 || stripe >= node.Stripes || err != nil {
			return nil, damaged("stripe %d: %w", stripe, err)
		}
	}
	return st, nil
}

func damaged(format string, args ...any) error {
	return engine.Misconfiguredf("%w: %w", cas.ErrDamaged, fmt.Errorf(format, args...))
}

// clone returns a copy that can be changed.
func (st *state) clone() *state {
	c := *st
	c.Registers, c.Leases, c.Proved = maps.Clone(st.Registers), maps.Clone(st.Leases), maps.Clone(st.Proved)
	if c.Registers == nil {
		c.Registers = make(map[int]fence.Token)
	}
	if c.Leases == nil {
		c.Leases = make(map[int][]byte)
	}
	return &c
}

// record returns what is remembered of a stripe.
func (st *state) record(stripe int) cas.Record {
	return cas.Record{Register: st.Registers[stripe], Leases: st.Leases[stripe]}
}

// set changes what is remembered of a stripe. Waiters poll, so that a record has neither queues nor
// notices.
func (st *state) set(stripe int, r cas.Record) {
	if r.Register > 0 {
		st.Registers[stripe] = r.Register
	}
	if st.Leases[stripe] = r.Leases; len(r.Leases) == 0 {
		delete(st.Leases, stripe)
	}
}

// prove notes that the store was seen to keep conditions at an endpoint.
func (st *state) prove(endpoint string, at time.Duration) {
	if st.Proved == nil || len(st.Proved) >= mostProved {
		st.Proved = make(map[string]time.Duration) // the others prove it again
	}
	st.Proved[endpoint] = max(at, st.Proved[endpoint])
}
