//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patience bounds everything that a scene waits for.
const patience = 20 * time.Second

// stage is what a scene is played on. It belongs to the scene's goroutine. Its methods
// end the scene, by a panic that perform recovers, when they cannot do what they are
// to do: a scene reads as what happens.
type stage struct {
	setting
	ctx    context.Context
	scene  string
	began  time.Time
	last   time.Duration // when the last event was
	folder string        // removed at the end
	keeper *keeper
	emit   func(Event)
	ends   []func() // in the order in which what they end was begun
	names  []string // for strings.NewReplacer: addresses, and what the scene calls them
}

// setting is what the scenes of one demo have in common.
type setting struct {
	client []string      // the program and the arguments that lead to RunClient
	beat   time.Duration // the reader's time for half a line; 0 for no reader
	binary *binary       // of the servers; nil if none is installed
}

// abort is how a scene ends that cannot go on.
type abort struct{ err error }

// perform plays a scene, and removes what it has started. The error says what went
// another way than told.
func perform(ctx context.Context, s setting, scene string, emit func(Event), play func(*stage)) (err error) {
	folder, err := os.MkdirTemp("", "fenlock-demo-")
	if err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil { // TMPDIR may be relative, and servers run elsewhere
		return err
	}
	st := &stage{setting: s, ctx: ctx, scene: scene, began: time.Now(), folder: folder, emit: emit}
	st.atEnd(func() { os.RemoveAll(folder) })
	defer func() {
		failure := recover()
		for _, end := range slices.Backward(st.ends) {
			end()
		}
		switch f := failure.(type) {
		case nil:
		case abort:
			err = f.err
		default:
			panic(f)
		}
	}()
	st.keeper, err = newKeeper(folder)
	st.must(err)
	st.atEnd(st.keeper.dismiss)
	play(st)
	return nil
}

// atEnd has the scene's end call f, before what was asked for earlier.
func (st *stage) atEnd(f func()) { st.ends = append(st.ends, f) }

// fail ends the scene.
func (st *stage) fail(format string, args ...any) { panic(abort{fmt.Errorf(format, args...)}) }

// must ends the scene if there is an error.
func (st *stage) must(err error) {
	if err == nil {
		return
	}
	if why := context.Cause(st.ctx); why != nil {
		err = why // whatever failed, it was that
	}
	panic(abort{err})
}

// say says what somebody did just now.
func (st *stage) say(actor string, what What, format string, args ...any) {
	st.show(Event{Actor: actor, What: what, Text: fmt.Sprintf(format, args...)})
}

// did says what somebody did to others just now.
func (st *stage) did(whom []string, actor string, what What, format string, args ...any) {
	st.show(Event{Actor: actor, What: what, Whom: whom, Text: fmt.Sprintf(format, args...)})
}

// note says what is no news.
func (st *stage) note(actor string, what What) { st.show(Event{Actor: actor, What: what}) }

// tell has the narrator speak.
func (st *stage) tell(format string, args ...any) { st.say("", Tell, format, args...) }

// show emits an event, and gives the reader time to read it. One that has no time
// happens now.
func (st *stage) show(e Event) {
	st.must(context.Cause(st.ctx))
	e.Scene = st.scene
	if e.At == 0 {
		e.At = time.Since(st.began)
	}
	// Of two processes that speak at the same moment, either may be heard first.
	st.last = max(st.last, e.At)
	e.At = st.last
	st.emit(e)
	if e.Text == "" {
		return
	}
	st.pause(st.beat * time.Duration(30+len(e.Text)) / 60)
}

// require ends the scene unless what it tells is so; otherwise says what is so instead.
func (st *stage) require(ok bool, otherwise string, args ...any) {
	if !ok {
		st.fail(otherwise, args...)
	}
}

// pause waits.
func (st *stage) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-st.ctx.Done():
		st.must(context.Cause(st.ctx))
	}
}

// until waits until done returns true, and ends the scene if that takes too long.
func (st *stage) until(what string, done func() bool) {
	for deadline := time.Now().Add(patience); !done(); st.pause(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			st.fail("not within %v: %s", patience, what)
		}
	}
}

// plain is an error of the library as a scene shows it: the servers by their names, and
// without the list of what each of them said.
func (st *stage) plain(text string) string {
	text, _, _ = strings.Cut(text, "; ")
	return strings.NewReplacer(st.names...).Replace(strings.TrimPrefix(text, "fenlock: "))
}

// short writes a duration in few digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}
