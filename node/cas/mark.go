package cas

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// mark is what MarkKey has: the mark of admission, or the note that the store is out. A later one
// makes the leases under all earlier ones void.
type mark struct {
	Admitted bool
	Of       string // Now.Memory of what this is the mark of: a copy of the store has another one
	Memory   string // made up with the note, and kept by the mark
	Terms    admit.Terms
	Empty    []string   // as in node.Registers
	Cause    node.Cause // of a note

	version uint64
	written time.Duration // when, by the store's clock
}

// markHead begins each mark.
const markHead = "fenlock mark "

func parseMark(v Value) (m mark, err error) {
	if v.Version == 0 {
		return m, nil
	}
	text, err := headed(v.Data, markHead, format)
	if err == nil {
		if err = json.Unmarshal(text, &m); err != nil {
			err = fmt.Errorf("%w: %w: the mark of admission cannot be read: %w", node.ErrMisconfigured, ErrDamaged, err)
		}
	}
	m.version, m.written = v.Version, v.Written
	return m, err
}

// votes reports whether this is the mark of what the store is now.
func (m mark) votes(at Now) bool { return m.Admitted && m.Of == at.Memory }

// looked is what a write of the mark compares.
type looked struct {
	at   Now
	mark mark
}

// Facts implements admit.Store. That the clock is read first has Out rounded down. What a server
// says that does not lead any more is compared by Note and Mark, which are writes.
func (k marked) Facts(ctx context.Context) (f admit.Facts, err error) {
	at, err := k.keys.Look(ctx)
	if err != nil {
		return f, err
	}
	stripes, err := k.keys.Stripes(ctx)
	if err != nil {
		return f, err
	}
	values, err := k.keys.Get(ctx, MarkKey)
	if err != nil {
		return f, err
	}
	m, err := parseMark(values[0])
	if err != nil {
		return f, err
	}
	of := m.version > 0 && m.Of == at.Memory
	f = admit.Facts{Server: at.Server, Memory: m.Memory + " " + at.Memory, Terms: m.Terms,
		Votes: m.votes(at), Marked: m.Admitted, Recorded: m.Admitted || m.Terms != (admit.Terms{}) || len(stripes) > 0,
		Counted: of && !m.Admitted, Out: at.Clock - m.written, Cause: m.Cause,
		Untouched: !m.Admitted, Empty: m.Empty, State: looked{at, m}}
	if !of && m.version > 0 {
		f.Cause = node.Replaced
	} else if !of {
		f.Cause = node.Unused
	}
	return f, nil
}

// Note implements admit.Store. Leases go in the same step, since the note has another version.
func (k marked) Note(ctx context.Context, f admit.Facts) (bool, error) {
	return k.set(ctx, f, mark{Memory: rand.Text(), Terms: f.Terms, Cause: f.Cause})
}

// Mark implements admit.Store.
func (k marked) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	if f.Terms != (admit.Terms{}) {
		own = f.Terms // as checked
	}
	return k.set(ctx, f, mark{Admitted: true, Memory: f.State.(looked).mark.Memory, Terms: own, Empty: empty})
}

// set replaces the mark that was looked at, in the store that was.
func (k marked) set(ctx context.Context, f admit.Facts, m mark) (bool, error) {
	was := f.State.(looked)
	m.Of = was.at.Memory
	text, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	data := append([]byte(markHead+strconv.Itoa(format)+"\n"), text...)
	_, err = k.keys.Put(ctx, MarkKey, data, Value{Version: was.mark.version}, was.at, was.mark.version)
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}
