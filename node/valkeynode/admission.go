package valkeynode

import (
	"time"

	"github.com/fenlock/fenlock/node/rule"
)

// This file decides whether a server may vote; it has no I/O. A server that
// forgot its leases would grant what others hold, and one that forgot its
// registers would promise numbers that were used. ARCHITECTURE.md: "A server that
// restarts".

// verdict is what is to be done with a server.
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
func decide(f facts, maxTTL time.Duration) (verdict, time.Duration) {
	// The mark is in the same memory as the leases and registers. If it names
	// what the server is now, the memory has not been lost since.
	if f.marked == f.replID {
		return admit, 0
	}
	// A replica that was promoted has been up all the time, and lacks what had
	// not been replicated. Scripts without a mark, or a flushed script cache
	// without one, mean FLUSHALL or the like, whenever that was.
	if !f.untouched() {
		return waitNow, 0
	}
	// From here on the server has been started since it was admitted last.
	if f.marked != "" && f.wasDurable && f.durable() {
		return admit, 0
	}
	if left := quarantine(max(maxTTL, f.maxTTL)) + uptimeSlack - f.uptime; left > 0 {
		return waitRun, left
	}
	return rebuildFirst, 0
}

// because says why a server is out, for people.
func (f facts) because() string {
	switch {
	case f.promoted, f.scriptsLoaded && f.marked != "":
		return "it was a replica, or its replication history has changed, and it may lack the newest leases"
	case !f.untouched():
		return "its registers are not there: its data was flushed, or this group or prefix is new to it"
	default: // without its uptime: the same news must read the same
		return "it was started a short time ago and may have forgotten leases"
	}
}

// untouched reports whether the server cannot have been admitted since it was
// started: nobody has loaded a script.
//
// Without a mark, scripts of another version of fenlock count, and so do other
// programs' scripts, which cannot be told from them.
func (f facts) untouched() bool {
	return !f.scriptsLoaded && !f.scriptsFlushed && !f.promoted && !(f.marked == "" && f.scriptsEverLoaded)
}
