package cas

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// Keys is a store of values under keys, of which Marked makes a Store. What Store says of its
// methods holds for these. The keys are MarkKey, and the numbers of stripes (StripeKey).
type Keys interface {
	// Look asks the store for its clock, and for what it is.
	Look(ctx context.Context) (Now, error)

	// Get reads the values of some keys, in one step or in this order, after Look. Each is what the
	// store had at some moment. It may be one of before that call only if a Put over it fails then.
	// If Put does not compare the mark, ask the server that leads for it.
	Get(ctx context.Context, keys ...string) ([]Value, error)

	// Put writes a value, if the key's value is still the one that was read, and the store the one
	// that was looked at. It returns the new version. The mark must be of the version that is
	// given, 0 if there was none, where the store can compare it in the same step. A store that was
	// made anew refuses a Put of before, also one of a key's first value.
	Put(ctx context.Context, key string, data []byte, over Value, at Now, mark uint64) (version uint64, err error)

	// Stripes returns the stripes that have a record, roughly: for those who look.
	Stripes(ctx context.Context) ([]int, error)

	// Scan calls yield for the record of each stripe that has one, from all pages of a listing. None
	// of them is older than the call.
	Scan(ctx context.Context, yield func(stripe int, v Value)) error
}

// Now is what a store says of itself.
type Now struct {
	Clock  time.Duration // as in Loaded
	Server string        // as in node.Registers
	// Memory identifies what the store remembers, as far as it knows by itself: it is another one
	// if the store was made anew. The mark is of one of them.
	Memory string
	State  any // the adapter's own, for Put
}

// Value is what a key has. The zero Value is that of a key that was never written.
type Value struct {
	Data []byte
	// Version is another one after each write, and larger than all that the store has had before,
	// of any key. No two stores have one in common. Where each key has versions of its own, the
	// store's clock before random bits serves, if it is larger than the key's last one.
	Version uint64
	// Written is when it was written, by the store's clock, rounded up. Only that of MarkKey counts:
	// a quarantine is counted from it, so that it must never be from before the write.
	Written time.Duration
}

// MarkKey is the key of the mark of admission, or of the note that the store is out.
const MarkKey = "admission"

// StripeKey returns the key of a stripe's record.
func StripeKey(stripe int) string { return strconv.Itoa(stripe) }

// ParseStripe returns the stripe whose record has this key, and whether it is one.
func ParseStripe(key string) (stripe int, is bool) {
	stripe, err := strconv.Atoi(key)
	return stripe, err == nil && stripe >= 0 && stripe < node.Stripes && key == StripeKey(stripe)
}

// Marked returns the Store of keys. The mark of admission is a value of its own, whose version is
// its name. Each record repeats the name of the mark that its leases were made under; leases under
// another one do not count, so that none outlives an admission.
//
// A store that cannot compare the mark in a write has it read after the clock and the record. A
// lease may be made although the mark was removed meanwhile. It ends, at the latest, the longest
// lease after that time, as the quarantine assumes. The quarantine begins with the note, which is
// later.
func Marked(k Keys) Store { return marked{k} }

type marked struct{ keys Keys }

// under is what a Save needs to know of a record of keys.
type under struct {
	at    Now
	value Value
	mark  uint64
}

// Load implements Store.
func (k marked) Load(ctx context.Context, stripe int) (Loaded, error) {
	at, err := k.keys.Look(ctx)
	if err != nil {
		return Loaded{}, err
	}
	values, err := k.keys.Get(ctx, StripeKey(stripe), MarkKey)
	if err != nil {
		return Loaded{}, err
	}
	m, err := parseMark(values[1])
	if err != nil {
		return Loaded{}, err
	}
	return k.loaded(values[0], at, m)
}

// loaded makes a record what it is worth under a mark.
func (k marked) loaded(v Value, at Now, m mark) (Loaded, error) {
	l := Loaded{Clock: at.Clock, Server: at.Server, Terms: m.Terms, Votes: m.votes(at), State: under{at, v, m.version}}
	if v.Version != 0 {
		var err error
		if l.Record, err = ParseRecord(v.Data); err != nil {
			return l, err
		}
	}
	switch {
	case l.Mark > m.version && l.Votes:
		// The mark is older than the record's own: it was read where a server has answered that
		// does not lead any more.
		return l, ErrConflict
	case l.Mark != m.version:
		l.Record = Record{Register: l.Register, Mark: m.version}
	}
	return l, nil
}

// Save implements Store.
func (k marked) Save(ctx context.Context, stripe int, r Record, over Loaded) (Loaded, error) {
	u := over.State.(under)
	version, err := k.keys.Put(ctx, StripeKey(stripe), r.Bytes(), u.value, u.at, u.mark)
	if err != nil {
		return Loaded{}, err
	}
	over.Record, over.Clock, over.Close = r, 0, nil
	over.State = under{u.at, Value{Version: version}, u.mark}
	return over, nil
}

// List implements Store.
func (k marked) List(ctx context.Context, yield func(stripe int, l Loaded) bool) error {
	stripes, err := k.keys.Stripes(ctx)
	for _, stripe := range stripes {
		l, err := k.Load(ctx, stripe)
		if errors.Is(err, ErrConflict) {
			l, err = k.Load(ctx, stripe)
		}
		if err != nil {
			return err
		}
		if !yield(stripe, l) {
			return nil
		}
	}
	return err
}

// Registers implements Store. They are of one memory if it has the same name afterwards.
func (k marked) Registers(ctx context.Context) (r node.Registers, err error) {
	before, err := k.Facts(ctx)
	if err != nil {
		return r, err
	}
	tokens := map[int]fence.Token{}
	if err := k.scan(ctx, func(stripe int, r Record) { tokens[stripe] = r.Register }); err != nil {
		return r, err
	}
	f, err := k.Facts(ctx)
	if err != nil {
		return r, err
	}
	if f.Memory != before.Memory || f.Votes != before.Votes {
		return r, ErrConflict
	}
	return node.Registers{Server: f.Server, Memory: f.Memory, Admitted: f.Votes, Empty: f.Empty,
		MaxTTL: f.Terms.MaxTTL, Members: f.Terms.Members, Tokens: tokens}, nil
}

// scan reads all records.
func (k marked) scan(ctx context.Context, yield func(stripe int, r Record)) error {
	var bad error
	err := k.keys.Scan(ctx, func(stripe int, v Value) {
		r, err := ParseRecord(v.Data)
		if bad = errors.Join(bad, err); err == nil {
			yield(stripe, r)
		}
	})
	return errors.Join(err, bad)
}

// Raise implements admit.Store. Leases stay as they are: the mark to come makes them void.
func (k marked) Raise(ctx context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	has := map[int]fence.Token{}
	if err := k.scan(ctx, func(stripe int, r Record) { has[stripe] = r.Register }); err != nil {
		return err
	}
	for stripe, token := range tokens {
		for err := ErrConflict; has[stripe] < token && errors.Is(err, ErrConflict); {
			if has[stripe], err = k.raise(ctx, stripe, token); err != nil && !errors.Is(err, ErrConflict) {
				return err
			}
		}
	}
	return nil
}

// raise raises the register of a stripe, and returns it.
func (k marked) raise(ctx context.Context, stripe int, token fence.Token) (fence.Token, error) {
	at, err := k.keys.Look(ctx)
	if err != nil {
		return 0, err
	}
	values, err := k.keys.Get(ctx, StripeKey(stripe), MarkKey)
	if err != nil {
		return 0, err
	}
	var r Record
	if values[0].Version != 0 {
		if r, err = ParseRecord(values[0].Data); err != nil || r.Register >= token {
			return r.Register, err
		}
	}
	r.Register = token
	if _, err = k.keys.Put(ctx, StripeKey(stripe), r.Bytes(), values[0], at, values[1].Version); err != nil {
		return 0, err
	}
	return token, nil
}
