//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Scene is one of the scenes.
type Scene struct {
	Name  string // what one types
	Title string // what happens
	// Shown is what one has seen when it went as told, and Promises are those of docs/promises.md,
	// "What is promised", that it is about: each, and as long as what, in its words.
	Shown    string
	Promises [][2]string

	play    func(*stage)
	servers bool // cannot be played without
}

// Scenes returns all scenes, in the order in which they are played.
func Scenes() []Scene {
	return []Scene{
		{Name: "contention", Title: "five processes want one lock", play: contention,
			Shown: "The lock goes to whoever came first. Nobody overtakes, nobody asks again and again, " +
				"and the next one has it a moment after it was given back.",
			Promises: [][2]string{{"Waiters are served in the order in which they came, and a newcomer does not overtake",
				"the nodes run, and their clocks agree or all of them answer"}}},
		{Name: "outage", Title: "two of five servers are down, and then three", play: outage, servers: true,
			Shown: "A majority of the servers is enough. Without one nobody gets the lock, and whoever has it " +
				"is told in time: no answer is better than a wrong one.",
			Promises: [][2]string{{"Locks work", "a majority of the nodes answers"}}},
		{Name: "paused", Title: "a holder is stopped beyond its lease, and writes when it wakes up", play: paused,
			Shown: "A lock alone cannot protect data from a holder that was paused. The token can, where the data is: " +
				"the guard is one comparison, with the largest token seen so far.",
			Promises: [][2]string{{"A guarded resource never applies a stale write",
				"every write to it goes through the guard, and the resource keeps the largest token with the data"}}},
		{Name: "restart", Title: "a server crashes, and comes back empty", play: restart, servers: true,
			Shown: "A server that has forgotten its locks must not vote on them. fenlock keeps it out until every " +
				"lock that it may have forgotten has ended. Plain Redlock leaves that to whoever starts the server.",
			Promises: [][2]string{{"A node that lost its memory votes for nothing that was live before",
				"clocks run at about the same rate, and the server's is not set forward by more than a moment in its first seconds"}}},
		{Name: "clock", Title: "clocks jump", play: jump,
			Shown: "That there is one holder at a time rests on clocks that run at the same rate, here and in every lock " +
				"with a time limit. That tokens grow, and that a guard refuses old ones, rests on none.",
			Promises: [][2]string{{"At most one process holds a lock within its validity",
				"clocks run at about the same rate, and no pause between a check and what follows it is longer than the validity left"},
				{"Tokens are unique, and an acquisition that starts after another one finished has the larger token",
					"a majority of the nodes keeps its registers"}}},
		{Name: "rolling", Title: "all servers restart, one after the other, under a held lock", play: rolling, servers: true,
			Shown: "A lock heals: its holder leases it anew from each server that comes back. Servers can be " +
				"upgraded under locks that are held.",
			Promises: [][2]string{{"A held lock is not lost, whatever others do with it or with other locks",
				"a majority of the nodes answers throughout, and each node that comes back votes, and has half a TTL (5 s) and a few round trips before the next one goes"}}},
	}
}

// Find returns the scene with a name, or with a number from 1.
func Find(name string) (Scene, error) {
	all := Scenes()
	i := slices.IndexFunc(all, func(s Scene) bool { return s.Name == name })
	if n, err := strconv.Atoi(name); err == nil {
		i = n - 1
	}
	if i < 0 || i >= len(all) {
		return Scene{}, fmt.Errorf("there is no scene %q: fenlock demo --list shows those that there are", name)
	}
	return all[i], nil
}

// Player plays scenes.
type Player struct {
	// Client is the program, with its arguments, that runs RunClient on its standard input
	// and output.
	Client []string
	// Beat is the time that a reader gets for half a line. 0 is for programs.
	Beat time.Duration
	// Emit gets what happens, in the goroutine of Play, which waits for it.
	Emit func(Event)
}

// Errors of Play.
var (
	// ErrOtherwise: at least one scene went another way than told. The events say which.
	ErrOtherwise = errors.New("not everything went as told")
	// ErrNoServer: at least one scene could not be played, because it needs Valkey, or Redis
	// from version 7 on, and neither is installed.
	ErrNoServer = errors.New("not everything could be played: neither valkey-server nor redis-server (7 or later) is in the PATH")
)

// Play plays the scenes, one after the other. Whatever it starts has ended, and is
// removed, when it returns. It stops when ctx ends, and returns its cause then; otherwise
// the error is ErrOtherwise or ErrNoServer.
func (p Player) Play(ctx context.Context, scenes ...Scene) error {
	s := setting{client: p.Client, beat: p.Beat, binary: findBinary()}
	otherwise, lacking := false, false
	for i, scene := range scenes {
		if i > 0 {
			// For what the last one has shown.
			select {
			case <-time.After(8 * p.Beat):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		began := time.Now()
		end := func(what What, text string) {
			p.Emit(Event{At: time.Since(began), Scene: scene.Name, What: what, Text: text})
		}
		end(Begin, scene.Title)
		if scene.servers && s.binary == nil {
			end(Lacks, "Not played: it needs servers, and neither valkey-server nor redis-server (7 or later) is in the PATH. "+
				"On Debian or Ubuntu: apt-get install valkey-server, or redis-server. On macOS: brew install valkey.")
			lacking = true
			continue
		}
		err := perform(ctx, s, scene.Name, p.Emit, scene.play)
		if why := context.Cause(ctx); why != nil {
			return why
		}
		if err != nil {
			end(Failed, "It went another way than it should. "+err.Error())
			otherwise = true
			continue
		}
		end(Shown, scene.Shown)
		for _, promise := range scene.Promises {
			end(Promise, promise[0]+", as long as "+promise[1])
		}
	}
	switch {
	case otherwise:
		return ErrOtherwise
	case lacking:
		return ErrNoServer
	}
	return nil
}
