// Package nodetest says what a node must do, as tests: the conformance suite
// that every engine of fenlock passes. Each rule is one test, with its reason
// beside it. The rules are those of package internal/rule, where they are pure
// functions; here they are asked of the real thing, through the fenlock.Node
// interface.
//
// # How to add an engine
//
// An engine is a folder, node/<store>node, with a type that implements
// fenlock.Node. The store must be able to do one thing atomically: read the
// lease of a name and the register of its stripe (fenlock.Stripe), decide, and
// write both. A transaction, a script on the server or a compare-and-swap loop
// will do.
//
//  1. Take the decision from internal/rule if the engine runs in Go, or
//     translate internal/rule line by line if it runs on the server, and refuse
//     bad requests with the Check functions there.
//  2. Take the time from the store, not from the client: two clients whose
//     clocks differ must agree on when a lease ends.
//  3. Keep at most fenlock.Stripes registers, and free what has expired: a
//     name that is locked once must not be remembered for ever.
//  4. Send every operation once. Where a client library retries by itself,
//     switch that off.
//  5. Write one test with a Harness:
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
package nodetest
