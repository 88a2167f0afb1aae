package fenlock

import "context"

// AcquireShared is Acquire with WithShared: for readers of what others write.
func (l *Locker) AcquireShared(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Acquire(ctx, name, append(opts[:len(opts):len(opts)], WithShared())...)
}

// Downgrade turns an exclusive lock into a shared one (WithShared), without giving it up in
// between. No client has it alone meanwhile, and the token stays. Shared waiters at the front of
// the queue come in. Nil means that a majority of the nodes has agreed; the others are asked with
// every extension. The errors are those of Extend, and ErrInvalid if a node is no node.Sharer.
// After any other error, others may share the name or not, while it is held.
//
// There is no way back: two holders that wanted it would wait for each other for good. Release it,
// acquire it again, and look whether what was read is still true.
func (k *Lock) Downgrade(ctx context.Context) error {
	if k.with != nil && k.with.name != k.name {
		return invalidf("the slot %q is not to be shared", k.name)
	}
	for l := k; l != nil; l = l.with {
		if err := l.locker.config.checkShared(); err != nil {
			return err
		}
	}
	for l := k; l != nil; l = l.with {
		l.acquisition.Lock().Share()
	}
	return k.Extend(ctx)
}
