package admission

import (
	"time"

	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/rule"
)

// verdict is what is to be done with a server that is not admitted. It is decided
// without I/O.
type verdict uint8

const (
	admit        verdict = iota // nothing was forgotten: mark it and load the scripts
	rebuildFirst                // leases that were forgotten have run out: rebuild the registers, then admit
	waitRun                     // wait out the quarantine, counted from the server's start
	waitNow                     // wait out the quarantine, counted from when this was first noticed
)

// quarantine is how long a server without memory stays out: the longest lease,
// and the drift of the clocks by which holders and servers measure it.
func quarantine(maxTTL time.Duration) time.Duration { return maxTTL + rule.Drift(maxTTL) }

// uptimeSlack covers that INFO counts whole seconds, of times rounded down on
// both sides: a server can be up for almost a second less than it says.
const uptimeSlack = time.Second

// decide returns the verdict on a server with these facts, in a group with this
// longest lease, and for waitRun how long it takes.
func decide(f command.Facts, maxTTL time.Duration) (verdict, time.Duration) {
	if marked(f) {
		return admit, 0
	}
	// A replica that was promoted has been up all the time, and lacks what had
	// not been replicated. Scripts without a mark, or a flushed script cache
	// without one, mean FLUSHALL or the like, whenever that was.
	if !untouched(f) {
		return waitNow, 0
	}
	// From here on the server has been started since it was admitted last.
	if f.Kept() {
		return admit, 0
	}
	if left := quarantine(max(maxTTL, f.MaxTTL)) + uptimeSlack - f.Uptime; left > 0 {
		return waitRun, left
	}
	return rebuildFirst, 0
}

// marked reports whether the server has the mark of admission. That is in the same
// memory as the leases and registers: if it names what the server is now, the memory
// has not been lost since. The scripts compare it too (admitted.lua).
func marked(f command.Facts) bool { return f.Marked == f.ReplID }

// because says why a server is out, for people.
func because(f command.Facts) string {
	switch {
	case f.Promoted, f.ScriptsLoaded && f.Marked != "":
		return "it was a replica, or its replication history has changed, and it may lack the newest leases"
	case !untouched(f):
		return "its registers are not there: its data was flushed, or this group or prefix is new to it"
	default: // without its uptime: the same warning must read the same
		return "it was started a short time ago and may have forgotten leases"
	}
}

// untouched reports whether the server cannot have been admitted since it was
// started: nobody has loaded a script.
//
// Without a mark, scripts of another version of fenlock count, and so do other
// programs' scripts, which cannot be told from them.
func untouched(f command.Facts) bool {
	return !f.ScriptsLoaded && !f.ScriptsFlushed && !f.Promoted && !(f.Marked == "" && f.ScriptsEverLoaded)
}
