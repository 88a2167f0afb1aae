package fenlock

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// Export ends the lock here, without a release, and returns a text with which another process goes
// on with it: Locker.Adopt. No other client gets in between, the token stays, and the waiters keep
// their places. It extends the lock first, so that there is about a TTL for the adoption to begin;
// if it is not adopted, it is free when its leases have ended.
//
// The text is a secret: any process that has it can hold and release the lock. It is of one line,
// of at most MaxExportLength bytes, all of them letters, digits, dots, hyphens and underscores.
// Hand it over by a pipe, a file or a variable, rather than as an argument that all users of a
// machine can see. Each text is for one process, and once. Two that adopt it at the same time would
// both hold the lock, and to the nodes they are one client. When one of them releases it, a third
// can have it while the other still believes that it holds it. Once Release has returned nil, the
// text is of no use: to adopt the lock by it again, as after a restart, is refused. The exception
// is a minimum hold that is not over, for which the leases stay (WithMinHold). Nor is it of use
// once the lock was lost, or was not adopted in time.
//
// Nil means that the lock is over here: Context has ended, with a cause that matches ErrExported,
// and nothing is sent for it any more. Otherwise it is what it was. The errors are those of Extend,
// and ErrInvalid for a slot, and for a lock of Groups whose name moves. Of several locks (Locks),
// each is exported by itself.
func (k *Lock) Export(ctx context.Context) (text string, err error) {
	if k.with != nil {
		return "", invalidf("%q is held with another lock, of which it is a slot, or on the group that its name leaves, and cannot be exported alone", k.name)
	}
	if err := k.locker.config.unbound("an export"); err != nil {
		return "", err
	}
	lock := k.acquisition.Lock()
	mark := lock.OfferExport()
	x, err := k.startExtend(0)
	if err != nil {
		return "", err
	}
	k.acquisition.Leave() // there will be no release of this process's
	if err := k.awaitExtension(ctx, x); err != nil {
		return "", err
	}
	e, why := lock.Export(mark)
	if why.Failed() {
		return "", k.errorOf(&why)
	}
	k.watched.freed(nil)
	k.watched.drain()
	return encodeExport(exported{Exported: e, name: k.name, group: k.locker.config.groupHash()}), nil
}

// Adopt goes on with a lock that another process, or this one, has exported: by a text of
// Lock.Export. It takes one round trip. The lock keeps its name, token, label, TTL, what is left of
// its maximum and minimum hold, and whether others share it. Neither this Locker's Config nor the
// time that the text took counts for these. The validity begins anew, on this process's clock.
//
// ErrLost: the lock had ended meanwhile. It was not adopted in time, another client had it, or it
// was released; the text is of no use any more. ErrMaxHold: its maximum hold was over when the
// nodes had answered, and it was released. ErrNoQuorum, or ctx's own error: nothing is known, and
// nothing is held; the text may still be good, so try again. ErrInvalid: the text is damaged, or of
// another version, or its lock is one of other nodes; or this Locker's Config does not allow its
// terms, or this Locker holds it already; nothing was sent. No error contains the text.
//
// The nodes are compared by their names: processes that hand over locks have to spell them in the
// same way.
func (l *Locker) Adopt(ctx context.Context, text string) (*Lock, error) {
	e, err := parseExport(text)
	if err == nil {
		err = l.config.mayAdopt(&e)
	}
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, gaveUpAdopting(ctx, e.name)
	}
	k := l.newLock(ctx, ctx, e.name)
	if _, twice := l.adopted.LoadOrStore(e.Holder, k); twice {
		return nil, invalidf("the lock %q was adopted by this Locker already", e.name)
	}
	k.adopted = e.Holder
	defer func() {
		if k.ctx == nil { // it was not held: if an observer panics, it may have been
			k.notAdopted()
		}
	}()
	l.client.Adopt(&k.acquisition, k.base, e.name, &e.Exported, (*owner)(k))
	if err := k.finish(ctx); err != nil {
		if k.failure.Reason == core.Cancelled {
			err = gaveUpAdopting(ctx, e.name)
		}
		return nil, err
	}
	return k, nil
}

// gaveUpAdopting is the error of a caller who gave up.
func gaveUpAdopting(ctx context.Context, name string) error {
	return fmt.Errorf("fenlock: adopt %q: %w", name, whyEnded(ctx))
}

// mayAdopt refuses a lock that does not fit this group.
func (c *Config) mayAdopt(e *exported) error {
	if e.group != c.groupHash() {
		return invalidf("the lock %q was exported on other nodes than these, or they are named in another way there", e.name)
	}
	if err := checkTTL("the TTL of the exported lock", e.TTL, c.MaxTTL); err != nil {
		return err
	}
	if e.AtLeast > 0 {
		if err := c.unbound("what is left of the minimum hold of the exported lock"); err != nil {
			return err
		}
	}
	switch {
	case e.TTL < 4*c.NodeTimeout && !binds(c.Nodes):
		return invalidf("the TTL of the exported lock is %v, at least four times Config.NodeTimeout, %v, is needed: a hung node could use up the lease", e.TTL, c.NodeTimeout)
	case e.AtLeast > c.MaxTTL:
		return invalidf("the minimum hold of the exported lock is %v still, longer than Config.MaxTTL, %v (all clients of the group must agree on MaxTTL)", e.AtLeast, c.MaxTTL)
	case e.Shared:
		return c.checkShared()
	}
	return nil
}

// MaxExportLength bounds the text of Lock.Export, in bytes.
const MaxExportLength = 1536

// exported is what the text of Lock.Export says.
type exported struct {
	shell.Exported
	name  string
	group string // what the nodes are called, hashed
}

// The text is a version, and fields that are separated by line feeds, which no name and no label
// has, in base64. The last field is a hash of all before it: for texts that were damaged or cut off
// on their way, not for forgers. A process that can make a text knows the holder, and needs none.
const (
	exportPrefix  = "fenlock-export-"
	exportVersion = "1"
)

var exportEncoding = base64.RawURLEncoding.Strict()

func encodeExport(e exported) string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	fields := strings.Join([]string{
		e.name, string(e.Holder), number(int64(e.Token)), number(int64(e.Mark)),
		number(int64(e.TTL)), number(int64(max(e.MaxHold, 0))), number(int64(e.AtLeast)), strconv.FormatBool(e.Shared),
		e.group,
	}, "\n") + "\n"
	return exportPrefix + exportVersion + "." + exportEncoding.EncodeToString([]byte(fields+shortHash(fields)))
}

// parseExport checks all that can be checked without a Locker. Its errors match ErrInvalid, and
// tell nothing of the text.
func parseExport(text string) (e exported, err error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxExportLength {
		return e, invalidf("this is no exported lock: it has %d bytes, at most %d are possible", len(text), MaxExportLength)
	}
	version, body, ok := strings.Cut(strings.TrimPrefix(text, exportPrefix), ".")
	switch {
	case !strings.HasPrefix(text, exportPrefix):
		return e, invalidf("this is no exported lock: Lock.Export makes such texts")
	case ok && version != exportVersion:
		return e, invalidf("the lock was exported by another version of fenlock: this one adopts version %s of the text",
			exportVersion)
	}
	damaged := invalidf("the exported lock is damaged: a part of the text is missing, or was changed")
	raw, err := exportEncoding.DecodeString(body)
	fields := strings.Split(string(raw), "\n")
	if !ok || err != nil || len(fields) != 10 {
		return e, damaged
	}
	hash := fields[9]
	if strings.TrimSuffix(string(raw), hash) == string(raw) || shortHash(strings.TrimSuffix(string(raw), hash)) != hash {
		return e, damaged
	}
	number := func(field string, least, most int64) (n int64) {
		n, failed := strconv.ParseInt(field, 10, 64)
		if failed != nil || n < least || n > most {
			err = damaged
		}
		return n
	}
	e.name, e.Holder, e.group = fields[0], node.Holder(fields[1]), fields[8]
	e.Token = fence.Token(number(fields[2], 1, int64(fence.MaxToken)))
	e.Mark = fence.Token(number(fields[3], int64(e.Token), int64(fence.MaxToken)-1)) // it was raised past that
	e.TTL = time.Duration(number(fields[4], 1, math.MaxInt64))
	e.MaxHold = time.Duration(number(fields[5], 0, math.MaxInt64))
	e.AtLeast = time.Duration(number(fields[6], 0, math.MaxInt64))
	e.Label, e.Slots, e.Shared = e.Holder.Label(), e.Holder.Slots(), fields[7] == strconv.FormatBool(true)
	switch {
	case err != nil, CheckName(e.name) != nil, !madeHere(e.Holder), encodeExport(e) != text: // each lock has one text
		return exported{}, damaged
	}
	return e, nil
}

// madeHere reports whether node.NewHolder, or node.Given, makes such holders, and a Locker such
// labels.
func madeHere(h node.Holder) bool {
	if len(h) <= node.IDLength || strings.Trim(string(h[:node.IDLength]), "0123456789abcdef") != "" {
		return false
	}
	return (h[node.IDLength] == '@' || h[node.IDLength] == '#') && h.Label() != "" &&
		checkText("", h.Label(), MaxLabelLength) == nil
}

// groupHash tells groups of nodes apart, whatever their order is.
func (c *Config) groupHash() string {
	var names []string
	for _, n := range c.Nodes {
		name := n.String()
		if named, ok := n.Engine().(interface{ Member() string }); ok {
			name = named.Member()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return shortHash(strings.Join(names, "\n"))
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
