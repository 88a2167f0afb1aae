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

// Player plays scenes.
type Player struct {
	// Client is the program, with its arguments, that runs RunClient on its standard input
	// and output, with the arguments that follow.
	Client []string
	// Beat is the time that a reader gets for half a line. 0 is for tests.
	Beat time.Duration
	// Emit gets what happens, in the goroutine of Play, which waits for it.
	Emit func(Event)
}

// stage is what a scene is played on. It belongs to the scene's goroutine. Its methods end the
// scene, by a panic that perform recovers, when they cannot do what they are to do. So a scene
// reads as what happens.
type stage struct {
	Player
	ctx             context.Context
	binary, product string // of the servers: the program, and "Valkey 8.0.1"
	scene           string
	began           time.Time

	folder string // removed at the end
	keeper *keeper
	ends   []func() // called at the end, the last one first
}

// abort is how a scene ends that cannot go on.
type abort struct{ err error }

// perform plays a scene, and removes what it has started. The error says what went
// another way than told.
func (st *stage) perform(play func(*stage)) (err error) {
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
	folder, err := os.MkdirTemp("", "fenlock-demo-")
	st.must(err)
	st.atEnd(func() { os.RemoveAll(folder) })
	st.folder, err = filepath.Abs(folder) // TMPDIR may be relative, and servers run elsewhere
	st.must(err)
	st.keeper, err = newKeeper(st.folder)
	st.must(err)
	st.atEnd(st.keeper.dismiss)
	play(st)
	return nil
}

// atEnd has the scene's end call f, before what was asked for earlier.
func (st *stage) atEnd(f func()) { st.ends = append(st.ends, f) }

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

// require ends the scene unless what it tells is so; otherwise says what is true instead.
func (st *stage) require(ok bool, otherwise string, args ...any) {
	if !ok {
		st.must(fmt.Errorf(otherwise, args...))
	}
}

// say reports what an actor did just now, and gives the reader time to read it.
func (st *stage) say(actor string, what What, format string, args ...any) {
	st.must(context.Cause(st.ctx))
	e := Event{At: time.Since(st.began), Scene: st.scene, Actor: actor, What: what, Text: fmt.Sprintf(format, args...)}
	st.Emit(e)
	beats := time.Duration(30 + len(e.Text))
	if what == Tell {
		beats *= 2 // a paragraph is new, and "fenlock ui" may be started meanwhile
	}
	st.pause(st.Beat * beats / 60)
}

// pause waits.
func (st *stage) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-st.ctx.Done():
		st.must(st.ctx.Err())
	}
}

// until waits until done returns true, and ends the scene if that takes too long.
func (st *stage) until(what string, done func() bool) {
	for deadline := time.Now().Add(patience); !done(); st.pause(10 * time.Millisecond) {
		st.require(time.Now().Before(deadline), "not within %v: %s", patience, what)
	}
}

// receive waits for a value, and ends the scene if that takes too long.
func receive[T any](st *stage, what string, from <-chan T) (value T) {
	select {
	case value = <-from:
	case <-time.After(patience):
		st.require(false, "not within %v: %s", patience, what)
	case <-st.ctx.Done():
		st.must(st.ctx.Err())
	}
	return value
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
