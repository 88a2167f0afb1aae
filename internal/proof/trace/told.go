package trace

import "fmt"

// Told is an attempt that was told something, or the time. Offered is the mark that is to go with a
// text, 0 if none is.
func (g *Group) Told(holder uint64, before, after *Held, offered uint64) error {
	if after.Round != before.Round {
		if err := g.Do("start", after.Round); err != nil {
			return err
		}
	}
	if after.Holding && !before.Holding {
		if before.Adopting {
			return g.adopt(before.Round, before.Mark)
		}
		return g.Do("finish", holder, Any, after.Token)
	}
	if after.Sure > before.Sure {
		if err := g.Do("carry", after.Sure, Any); err != nil {
			return err
		}
	}
	if after.Round == before.Round &&
		(after.Carried && !before.Carried || after.Until > before.Until && before.Holding && after.Sure == before.Sure) {
		if err := g.Do("carry", after.Round, Any); err != nil {
			return err
		}
	}
	if after.Mark > before.Mark {
		if offered == before.Mark && offered != 0 && g.text != nil {
			return g.Do("export", holder, Any, offered, after.Mark)
		}
		return g.Do("raise", holder, Any, before.Mark, after.Mark)
	}
	return nil
}

// Starts is an attempt that adopts a lock: it begins with an extension.
func (g *Group) Starts(round uint64) error { return g.Do("start", round) }

// adopt finds the text by which a lock is adopted.
func (g *Group) adopt(round, mark uint64) error {
	second := uint64(0)
	if g.textAt != nil {
		g.S.each(g.textAt, func(k key, _ uint64) bool {
			if k[0] == round && k[1] == mark {
				second = k[2]
			}
			return second == 0
		})
	}
	return g.Do("adopt", round, Any, mark, second)
}

// Exported is a lock that is handed over with a mark.
func (g *Group) Exported(holder, mark uint64) error {
	found := g.text == nil
	if g.text != nil {
		g.S.each(g.text, func(k key, _ uint64) bool {
			found = found || k[0] == holder && k[1] == mark
			return !found
		})
	}
	if !found {
		return g.refuse(fmt.Sprintf("A%d is exported with the mark %d", holder, mark),
			"the guard of export is false: no such raise was agreed to")
	}
	return nil
}

// Forced is a forced release that is done.
func (g *Group) Forced(operator, number uint64) error { return g.Do("finish", operator, Any, number) }
