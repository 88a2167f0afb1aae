package fenlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenlock/fenlock/internal/core"
)

// Export ends the lock here, without a release, and returns a text with which another process
// goes on with it: Locker.Adopt. Nobody else gets in between, the token stays, and whoever waits in line
// goes on waiting. It extends the lock first, so that there is about a TTL for the adoption to begin;
// if nobody adopts it, it is free when its leases have ended.
//
// The text is a secret: whoever has it can hold and release the lock. It is of one line, of at most
// MaxExportLength bytes, all of them letters, digits, dots, hyphens and underscores. Hand it over by a pipe,
// a file or a variable, rather than as an argument that all users of a machine can see. Each text
// is for one process, and once: two that adopt it at the same time would both hold the lock, and to
// the nodes they are one, so that a third can have it while one of them still believes to, when the other one
// releases it. Do not adopt again what was adopted and released, as after a restart: that is refused,
// unless a node was missed by the export and another one by the release. Once the lock was lost, or not
// adopted in time, the text is of no use.
//
// Nil means that the lock is over here: Context has ended, with a cause that matches ErrExported, and
// nothing is sent for it any more. Otherwise it is what it was. The errors are those of Extend, and
// ErrInvalid for a slot, and for a lock of Groups whose name moves. Of several locks (Locks), each is exported by itself.
func (k *Lock) Export(ctx context.Context) (text string, err error) {
	if k.with != nil {
		return "", invalidf("%q is held with another lock, of which it is a slot, or on the group that its name leaves, and cannot be exported alone", k.name)
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

// Adopt goes on with a lock that another process, or this one, has exported: by a text of Lock.Export.
// It takes one round trip. The lock is what it was there: its name, token, label, TTL, what is left of its
// maximum and minimum hold, and whether others share it. Neither this Locker's Config nor the time that the text
// took counts for these. The validity begins anew, on this process's clock.
//
// ErrLost: the lock had ended meanwhile. It was not adopted in time, somebody else had it, or it was released;
// the text is of no use any more. ErrMaxHold: its maximum hold was over when the nodes had answered, and it was
// released. ErrNoQuorum, or ctx's own error: nothing is known, and nothing is held; the text may
// still be good, so try again. ErrInvalid: the text is damaged, or of another
// version, or its lock is one of other nodes, or has terms that this Locker's Config does not allow, or this Locker holds it already;
// nothing was sent. No error contains the text.
//
// The nodes are compared by their names: processes that hand over locks have to spell them in the same way.
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

// Adopt is Locker.Adopt on the group of the lock's name. A name that moves cannot be adopted: the error
// matches ErrInvalid.
func (g *Groups) Adopt(ctx context.Context, text string) (*Lock, error) {
	e, err := parseExport(text)
	if err != nil {
		return nil, err
	}
	group, old := g.Of(e.name)
	if old.ID != "" {
		return nil, invalidf("%q goes from the group %q to %q, and cannot be adopted meanwhile", e.name, old.ID, group.ID)
	}
	return group.Locker.Adopt(ctx, text)
}

// gaveUpAdopting is the error of a caller who gave up.
func gaveUpAdopting(ctx context.Context, name string) error {
	why := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, why) {
		why = fmt.Errorf("%w (%w)", why, cause)
	}
	return fmt.Errorf("fenlock: adopt %q: %w", name, why)
}

// mayAdopt refuses a lock that does not fit this group.
func (c *Config) mayAdopt(e *exported) error {
	if e.group != c.groupHash() {
		return invalidf("the lock %q was exported on other nodes than these, or they are named in another way there", e.name)
	}
	if err := checkTTL("the TTL of the exported lock", e.TTL, c.MaxTTL); err != nil {
		return err
	}
	switch {
	case e.TTL < 4*c.NodeTimeout:
		return invalidf("the TTL of the exported lock is %v, at least four times Config.NodeTimeout, %v, is needed: a hung node could use up the lease", e.TTL, c.NodeTimeout)
	case e.AtLeast > c.MaxTTL:
		return invalidf("the minimum hold of the exported lock is %v still, longer than Config.MaxTTL, %v (all clients of the group must agree on MaxTTL)", e.AtLeast, c.MaxTTL)
	case e.Shared:
		return c.checkShared()
	}
	return nil
}
