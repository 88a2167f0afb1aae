package shell

import (
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// This file is what an exporter does. An adopter's attempt is like any other: Client.Adopt begins
// it.

// OfferExport has the next extension prepare an export, with the mark that it returns.
func (l *Lock) OfferExport() (mark fence.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempt.OfferExport()
}

// Export ends the lock without a release, after an extension that has prepared it. Nothing is sent.
func (l *Lock) Export(mark fence.Token) (e Exported, why Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.group.Env.Now()
	done := l.attempt.Export(mark, now)
	e = Exported{Holder: l.holder, Token: l.attempt.Token(), Mark: mark, Terms: *l.terms}
	if e.MaxHold > 0 {
		e.MaxHold = max(l.start+e.MaxHold-now, 1)
	}
	e.AtLeast = max(l.keepLeft(now), 0)
	e.Shared = e.Shared || l.shares
	l.settle(now)
	if done {
		return e, Failure{}
	}
	if why = l.end(); !why.Failed() {
		why = l.notExtended(core.NoQuorum)
	}
	return Exported{}, why
}
