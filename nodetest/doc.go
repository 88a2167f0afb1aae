// Package nodetest says what a node must do, as tests: the conformance suite
// that every engine of fenlock passes. Each rule is one test, with its reason
// beside it. The rules are those of package node/rule, where they are pure
// functions; here they are asked of the real thing, through the node.Node
// interface.
//
// # How to add an engine
//
// An engine is a folder, node/<store>node, with a type that implements
// node.Node. The store must be able to do one thing atomically: read the
// lease of a name and the register of its stripe (node.Stripe), decide, and
// write both. A transaction, a script on the server or a compare-and-swap loop
// will do.
//
//  1. Take the decision from node/rule if the engine runs in Go, or
//     translate node/rule line by line if it runs on the server, and refuse
//     bad requests with the Check functions there.
//  2. Take the time from the store, not from the client: two clients whose
//     clocks differ must agree on when a lease ends.
//  3. Keep at most node.Stripes registers, and free what has expired: a
//     name that is locked once must not be remembered for ever.
//  4. Send every operation once. Where a client library retries by itself,
//     switch that off.
//  5. If the store can tell a client something without being asked, be a
//     node.Queuer, see below. Otherwise waiters poll.
//  6. Write one test with a Harness:
//
// Like this:
//
//	func TestConformance(t *testing.T) {
//		nodetest.Run(t, func(t *testing.T) nodetest.Harness {
//			store := startEmptyStore(t)
//			return nodetest.Harness{Node: open(t, store), Other: open(t, store), Wait: time.Sleep}
//		})
//	}
//
// # What a node.Queuer has to do
//
// A line is the waiters of one name by stamp, then by waiter, byte by byte. The
// lines, the leases and the calls are one state: each operation reads and writes
// them in one step, by AcquireInLine, ReleaseInLine and ForceReleaseInLine of
// node/rule.
//
//  1. What is kept for a waiter is a lease like any other, with the holder
//     rule.Reserved, so that what does not know of lines is refused by it.
//     Where people see it, its label is node.NextInQueue.
//  2. Whether a waiter can be told is asked within the same step, and has to be
//     true of now: a list of clients that were there once makes each one that has
//     ended cost everybody behind it a second. Telling may follow the step, once.
//  3. Listen outlives its context, broken connections and restarts of the store,
//     and ends with Close. Whenever the waiters were out of reach for a moment,
//     event("") follows, after they are in reach again, and never otherwise.
//  4. Forget a line after core.LineExpiry without an Acquire that has a place, or
//     a Release that joins, and keep at most core.MaxLine waiters in it.
//  5. Refuse bad places with rule.CheckPlace, before the store sees them.
//  6. Answer.Clock is the clock that leases are counted by.
//
// The suite finds out by itself that a node is a Queuer, and has rules for that.
//
// Then test what the suite cannot know: the store's own failures (full,
// restarted, replaced, unreachable while a request is under way), several
// processes at once, and that the messages say what to do about it.
package nodetest
