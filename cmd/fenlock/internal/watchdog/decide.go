//go:build linux || darwin || freebsd

package watchdog

import "time"

// Step is what is to be done about a command that runs under a lock.
type Step uint8

const (
	Leave     Step = iota // let it run
	Terminate             // ask it to end: SIGTERM to its process group
	Kill                  // end it: SIGKILL to its process group
)

// outlook is what is known of the lock while the command runs.
type outlook struct {
	ttl  time.Duration
	left time.Duration // validity left, as last known; 0 or less: it has ended
	gone bool          // the lock says that it is not held any more
	// stopping: SIGTERM was sent, since ago. From then on left does not grow.
	stopping bool
	since    time.Duration
}

// Between SIGTERM and SIGKILL a command has a quarter of the TTL, roughly; what
// is left after SIGKILL is for the kernel to tear a large process down.
const (
	TermShare = 3  // a TTL's third is left: all attempts to extend have failed
	KillShare = 10 // a TTL's tenth is left
	// GraceShare bounds the time to end after a lock that is gone already, and may be another
	// client's.
	GraceShare = 10
	lookShare  = 20
)

// decide says what to do now, and after how long to decide again at the latest. It counts back from
// the end of the validity, so that the command is dead before the lease can be another client's.
//
// It does not matter why the validity is not growing. Nodes may be down, or a maximum hold over.
// After a pause of fenlock itself, left is small or gone.
func decide(o outlook) (do Step, again time.Duration) {
	untilKill := o.left - o.ttl/KillShare
	if o.gone && o.stopping {
		untilKill = min(untilKill, o.ttl/GraceShare-o.since)
	}
	// Never long: timers stand still while the machine is suspended, the
	// validity does not.
	look := LookEvery(o.ttl)
	switch {
	case untilKill <= 0:
		return Kill, look
	case o.stopping:
		return Leave, min(look, untilKill)
	case o.gone, o.left <= o.ttl/TermShare:
		return Terminate, min(look, untilKill)
	}
	return Leave, min(look, o.left-o.ttl/TermShare)
}

// LookEvery is how often the watcher of a lock looks at the time.
func LookEvery(ttl time.Duration) time.Duration { return min(ttl/lookShare, time.Second) }
