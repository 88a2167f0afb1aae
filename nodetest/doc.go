// Package nodetest says what a node must do, as tests: the conformance suite
// that every engine of fenlock passes. Each rule is one test, with its reason
// beside it. The contract is package node's, the decisions are in package rule as a
// pure function; here they are asked of the real thing.
//
// # How to write an engine
//
// An engine is a package, in this module or any other, with a type that implements
// node.Node. It needs package node, and these where they fit: node/rule for the
// decisions, node/rebuild for a store that can lose its memory, node/clock for a clock
// that all processes of a machine share, and this package for the proof. They import
// nothing but the standard library.
//
// The store must be able to do one thing atomically: read the lease of a name, the
// register of its stripe (node.Stripe) and, if it keeps them, the waiters for it,
// decide, and write all of them. A transaction, a script on the server or a
// compare-and-swap loop will do.
//
//  1. Do refuses what rule.Check refuses, before the store sees it. Its errors name the
//     node, as String does, wrap what has happened, and show neither a password nor a
//     node.Holder, which has verbs of its own against that.
//  2. Let rule.Serve decide if the engine runs in Go; translate it line by line if it
//     runs on the server. rule.Store is all of the memory that an engine needs which
//     can read and write it as a whole: it can be encoded.
//  3. Take the time from the store, not from the client: two clients whose
//     clocks differ must agree on when a lease ends.
//  4. Names, holders and waiters are any bytes: not text, no patterns, no paths.
//  5. Keep at most node.Stripes registers, and free what has expired: a
//     name that is locked once must not be remembered for ever.
//  6. Send every operation once. Where a client library retries by itself,
//     switch that off. What is not known is an error, never an answer.
//  7. Do returns soon after its context is done. Every operation returns an error after
//     Close, which frees all that was opened and waits for all that was begun.
//  8. Engine returns the engine itself, a pointer. Be a node.Admin if the store can list
//     its leases: an operator wants to see who has what, and the suite sees more.
//  9. If the store can tell a client something without being asked, be a
//     node.Queuer, see below. Otherwise waiters poll: pass rule.Serve no queue.
//  10. If the store can lose its memory while its address stays the same, be a
//     node.Rejoiner: answer node.Rejoining until rebuild.Merge has made the registers
//     anew from the other nodes', and the longest lease has passed.
//  11. Write one test with a Harness:
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
// Then test what the suite cannot know: the store's own failures (full,
// restarted, replaced, unreachable while a request is under way), several
// processes at once, and that the messages say what to do about it.
//
// # What a node.Queuer has to do
//
// The waiters of one name are in the order of their stamps, then of their bytes. The
// queues, the leases and the notifications are one state: each operation reads and
// writes them in one step. An engine in Go serves rule.Queue from where it keeps them,
// and after the step tells the waiter that rule.Serve has returned, once.
//
//  1. What is reserved for a waiter is a lease like any other, with the holder
//     node.Reserved, so that what does not know of queues is refused by it.
//     Where people see it, its label is node.NextInQueue.
//  2. Whether a waiter can be told is asked within the same step, and has to be
//     true of now: a list of clients that were there once makes each one that has
//     ended cost everybody behind it a second. Of the waiters of a client, all can be
//     told or none: the client is what is before the colon.
//  3. Listen refuses a client that could have no waiters: rule.CheckClient. It outlives its context, broken connections and restarts of the store,
//     and ends with Close. Whenever the waiters were out of reach for a moment,
//     notify("") follows, after they are in reach again, and never otherwise.
//  4. Forget a queue rule.QueueExpiry after rule.Queue.Renew, or a second earlier, and
//     keep at most rule.MaxQueue waiters in it.
//  5. Answer.Clock is the clock that leases are counted by.
package nodetest
