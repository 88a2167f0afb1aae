//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Scene is one of the scenes.
type Scene struct {
	Name  string
	Title string // what happens
	// Shown is what the scene has shown when it went as told. Promise is the row of
	// docs/promises.md that it is about: the promise, and as long as what, in its words.
	Shown   string
	Promise [2]string

	play func(*stage)
}

// Scenes returns the scenes with these names, or all, in the order in which they are played.
func Scenes(names ...string) []Scene {
	return slices.DeleteFunc([]Scene{
		{Name: "paused", Title: "a holder is stopped beyond its lease, and writes when it wakes up", play: paused,
			Shown: "A lock alone cannot protect data from a holder that was paused. The token can, where the data is: " +
				"the guard is one comparison, with the largest token seen so far.",
			Promise: [2]string{"A guarded resource never applies a stale write",
				"every write to it goes through the guard, and the resource keeps the largest token with the data"}},
		{Name: "restart", Title: "a server crashes, and comes back empty", play: restart,
			Shown: "A server that has forgotten its locks must not vote on them. fenlock keeps it out until every " +
				"lock that it may have forgotten has ended. Plain Redlock leaves that to the operator.",
			Promise: [2]string{"A node that lost its memory votes for nothing that was live before",
				"clocks run at about the same rate, and the server's is not set forward by more than a moment in its first seconds"}},
		{Name: "outage", Title: "two of five servers are down, and then three", play: outage,
			Shown: "A majority of the servers is enough. Without one, no client gets the lock, and its holder " +
				"is told in time: no answer is better than a wrong one.",
			Promise: [2]string{"Locks work", "a majority of the nodes answers"}},
	}, func(s Scene) bool { return len(names) > 0 && !slices.Contains(names, s.Name) })
}

// Errors of Play.
var (
	// ErrOtherwise: at least one scene went another way than told. The events say which.
	ErrOtherwise = errors.New("not everything went as told")
	// ErrNoServer: Valkey, or Redis from version 7 on, is needed, and neither is installed.
	ErrNoServer = errors.New("the demo needs valkey-server, or redis-server from version 7 on, in the PATH. " +
		"On Debian or Ubuntu: apt-get install valkey-server, or redis-server. On macOS: brew install valkey")
)

// Play plays the scenes, one after the other. Whatever it starts has ended, and is
// removed, when it returns. It stops when ctx ends, and returns its cause then; otherwise
// the error is ErrOtherwise or ErrNoServer.
func (p Player) Play(ctx context.Context, scenes ...Scene) error {
	binary, product := findServer()
	if binary == "" {
		return ErrNoServer
	}
	otherwise := false
	for i, scene := range scenes {
		if i > 0 {
			// For what the last one has shown.
			select {
			case <-time.After(8 * p.Beat):
			case <-ctx.Done():
			}
		}
		st := &stage{Player: p, ctx: ctx, binary: binary, product: product, scene: scene.Name, began: time.Now()}
		err := st.perform(func(st *stage) {
			st.say("", Begin, "%s", scene.Title)
			scene.play(st)
			st.say("", Shown, "%s", scene.Shown)
			st.say("", Promise, "%s", strings.Join(scene.Promise[:], ", as long as "))
		})
		if why := context.Cause(ctx); why != nil {
			return why
		}
		if err != nil {
			p.Emit(Event{At: time.Since(st.began), Scene: scene.Name, What: Failed,
				Text: "It went another way than it should. " + err.Error()})
			otherwise = true
		}
	}
	if otherwise {
		return ErrOtherwise
	}
	return nil
}
