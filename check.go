package fenlock

// Check returns what Acquire would refuse a name and options for, before anything is sent: nil, or an
// error that matches ErrInvalid. It is for who is given them long before it takes a lock, where nobody
// would hear of the error. A nil Locker is refused as well.
func (l *Locker) Check(name string, opts ...Option) error {
	if l == nil {
		return invalidf("the Locker is nil")
	}
	if _, err := l.config.optionsOf(opts); err != nil {
		return err
	}
	return CheckName(name)
}

// Check is Locker.Check on the group of the name and, while that moves, on the one that it leaves.
func (g *Groups) Check(name string, opts ...Option) error {
	if g == nil {
		return invalidf("the Groups are nil")
	}
	group, old := g.Of(name)
	if old.ID != "" {
		if err := old.Locker.Check(name, opts...); err != nil {
			return err
		}
	}
	return group.Locker.Check(name, opts...)
}
