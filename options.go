package fenlock

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/internal/shell"
)

// Option is how one acquisition differs from what the Locker's Config says.
type Option func(*shell.Options)

// WithTTL has the lock's leases last for d instead of Config.TTL. It is within the same
// bounds, and at least four times Config.NodeTimeout.
func WithTTL(d time.Duration) Option { return func(o *shell.Options) { o.Terms.TTL = d } }

// WithMaxHold ends the tenure after d instead of Config.MaxHold; negative means unbounded.
// It is not shorter than the TTL.
func WithMaxHold(d time.Duration) Option {
	return func(o *shell.Options) {
		if o.Terms.MaxHold = max(d, -1); d == 0 {
			o.Failed = invalidf("WithMaxHold(0) would end the lock at once; negative means unbounded")
		}
	}
}

// WithMinHold keeps the lock for at least d from when it was taken. If it is released before, or
// its process ends, the leases stay, and are not extended. It is for what is to happen once in a
// while, on whichever of several machines comes first. Acquire returns when a majority of the nodes
// has leased the name for d. Where d is longer than the TTL, that takes one round trip more.
// Release then returns nil when a majority has them until then. Of several names it counts from
// when the last was taken. It is not longer than Config.MaxTTL, as no lease is, nor than the
// maximum hold.
//
// The tenure is not longer by it: what Lock.Context and Remaining promise goes by the TTL. Nodes
// that lose their memory forget it, as they forget every lease. Where too few nodes answer to make
// the leases so long, Acquire fails with ErrNoQuorum at once. For Lead it is of little use: a
// leader that loses the lead waits for its own leases, as the others do.
func WithMinHold(d time.Duration) Option {
	return func(o *shell.Options) {
		if o.Terms.AtLeast = d; d <= 0 {
			o.Failed = invalidf("WithMinHold(%v): it must be longer than that", d)
		}
	}
}

// WithLabel tells people who holds, or waits for, the lock, instead of Config.Label.
func WithLabel(label string) Option {
	return func(o *shell.Options) {
		if o.Terms.Label = label; label == "" {
			o.Failed = invalidf("the label of WithLabel is empty")
		}
	}
}

// WithShared shares the name with all others that want the same. Shared and exclusive holders
// exclude each other. All waiters form one FIFO queue. A waiter for the exclusive lock stops those
// that come later. Shared waiters at the front of the queue get the lock together.
//
// The token is larger than that of every earlier exclusive holder, and smaller than that of every
// later one. A shared holder that begins after another one held it has the same or a larger token.
// A guard that is to refuse a holder that was paused keeps the largest token that has read beside
// the largest that has written: fence.Guard.Read. The guards in databases keep one number, for
// writes only.
//
// Each node has to be a node.Sharer; with others, the error matches ErrInvalid.
func WithShared() Option { return func(o *shell.Options) { o.Terms.Shared = true } }

// WithWait bounds for how long Acquire waits, beside its context: the error then matches
// context.DeadlineExceeded and, as always, the reason why the last attempt failed. An attempt
// that is under way when d is over is given up, so that of TryAcquire is bounded as well.
func WithWait(d time.Duration) Option {
	return func(o *shell.Options) {
		if o.Wait, o.Waits = d, true; d <= 0 {
			o.Failed = invalidf("WithWait(%v): it must be longer; TryAcquire does not wait", d)
		}
	}
}

// within returns the context that an acquisition has to be over by.
func within(ctx context.Context, o *shell.Options) (context.Context, context.CancelFunc) {
	if !o.Waits {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, o.Wait)
}

// optionsOf returns what an acquisition is made with, or an error that matches ErrInvalid.
func (c *Config) optionsOf(given []Option) (shell.Options, error) {
	terms := shell.Terms{TTL: c.TTL, MaxHold: c.MaxHold, Label: c.Label}
	if len(given) == 0 {
		return shell.Options{Terms: terms}, nil // New has checked it, and nothing escapes to the heap
	}
	return c.choose(shell.Options{Terms: terms}, given)
}

func (c *Config) choose(o shell.Options, given []Option) (shell.Options, error) {
	for _, option := range given {
		if option == nil {
			return o, invalidf("an option is nil")
		}
		option(&o)
	}
	if o.Failed != nil {
		return o, o.Failed
	}
	if err := checkTTL("the TTL", o.Terms.TTL, c.MaxTTL); err != nil {
		return o, err
	}
	if o.Terms.Shared {
		if err := c.checkShared(); err != nil {
			return o, err
		}
	}
	if o.Terms.AtLeast > 0 {
		if err := c.unbound("a minimum hold"); err != nil {
			return o, err
		}
	}
	switch {
	case o.Terms.TTL < 4*c.NodeTimeout && !binds(c.Nodes):
		return o, invalidf(
			"the TTL is %v, at least four times Config.NodeTimeout, %v, is needed: a hung node could use up the lease",
			o.Terms.TTL, c.NodeTimeout)
	case o.Terms.AtLeast > c.MaxTTL:
		return o, invalidf(
			"the minimum hold is %v, longer than Config.MaxTTL, %v (all clients of the group must agree on MaxTTL)",
			o.Terms.AtLeast, c.MaxTTL)
	case o.Terms.MaxHold > 0 && o.Terms.AtLeast > o.Terms.MaxHold:
		return o, invalidf("the minimum hold is %v, longer than the maximum hold, %v", o.Terms.AtLeast, o.Terms.MaxHold)
	case o.Terms.MaxHold > 0 && o.Terms.MaxHold < o.Terms.TTL:
		return o, invalidf("the maximum hold is %v, shorter than the TTL, %v", o.Terms.MaxHold, o.Terms.TTL)
	}
	return o, checkText("the label", o.Terms.Label, MaxLabelLength)
}
