package sim

// Fault is a kind of thing that goes wrong.
type Fault int

// What can go wrong. All but the last four are what fenlock promises to bear, and
// doubled requests; see assumption.
const (
	requestLost Fault = iota
	replyLost
	slow
	reordered
	duplicated
	oneNodeCut
	majorityCut
	oneWayCut
	ringCut
	clientCut
	crashed
	emptied
	forgetful
	wiped
	restored
	copied
	setBack
	stray
	stalled
	paused
	pausedForTTL
	subscriptionBroken
	notificationLost
	gaveUpTrying
	gaveUpWaiting
	gaveUpQueued
	killed
	closed
	wallStepped
	staleWrite
	nodeStepped
	clientStepped
	majorityLost
	forced
	faults
)

// kinds are the names of the faults. How they are injected is in faults.go.
var kinds = [faults]string{
	requestLost:        "request lost",
	replyLost:          "reply lost",        // of a request that was executed
	slow:               "slow message",      // that takes longer than most timeouts
	reordered:          "reordered request", // overtaken by a later one
	duplicated:         "doubled request",   // executed twice
	oneNodeCut:         "one node cut off",
	majorityCut:        "majority cut off",
	oneWayCut:          "one-way cut", // requests, or answers only
	ringCut:            "ring of cuts",
	clientCut:          "client cut off",
	crashed:            "node crashed",
	emptied:            "node lost its memory",
	forgetful:          "node lost some memory",
	wiped:              "store wiped",
	restored:           "older store in its place",
	copied:             "copy in its place",
	setBack:            "store set back",
	stray:              "request for an earlier store", // that was carried out, and does not count
	stalled:            "servers stalled",              // and answer late all that came meanwhile
	paused:             "client paused",
	pausedForTTL:       "client paused for a TTL", // or longer
	subscriptionBroken: "subscription broken",
	notificationLost:   "notification lost",
	gaveUpTrying:       "gave up trying",       // with an attempt under way
	gaveUpWaiting:      "gave up waiting",      // between attempts
	gaveUpQueued:       "gave up in the queue", // behind others of its process
	killed:             "client killed",
	closed:             "client closed",
	wallStepped:        "wall clock stepped",
	staleWrite:         "stale write", // that the guard refused
	nodeStepped:        "node's clock stepped",
	clientStepped:      "client's clock stepped",
	majorityLost:       "majority lost its memory",
	forced:             "lock released by force",
}

func (f Fault) String() string { return kinds[f] }

// Counts are how often a kind of fault was injected, and how often of these while a client held a
// lock.
type Counts struct{ All, Held int }
