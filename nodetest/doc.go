// Package nodetest says what a node must do, as tests: the conformance suite
// that every engine of fenlock passes. Each rule is one test, with its reason
// beside it. The contract is package node's, the decisions are in package rule as a
// pure function; here they are asked of the real thing.
//
// # How to write an engine
//
// An engine is a package, in this module or any other, with a type that implements node.Node. It
// needs package node, and these where they fit. node/rule is for the decisions, node/admit for a
// store that can lose its memory. node/clock is for a clock that all processes of a machine share,
// and this package for the proof. They import nothing but the standard library.
//
// The store must be able to do one thing atomically. It reads the lease of a name, the register of
// its stripe (node.Stripe) and, if it keeps them, the waiters for it. It decides, and writes all of
// them. A transaction, a script on the server or a compare-and-swap loop will do. What was refused
// for its comparison did nothing, and may be begun anew.
//
//  1. Do refuses what rule.Check refuses, before the store sees it. Its errors name the node, as
//     String does, and wrap what has happened. They show neither a password nor a node.Holder,
//     which has verbs of its own against that. They match node.ErrMisconfigured if only a person
//     can mend it, and say how.
//  2. Let rule.Serve decide if the engine runs in Go; translate it line by line if it
//     runs on the server. rule.Store is all of the memory that an engine needs which
//     can read and write it as a whole. It can be encoded (encoding/gob; JSON spoils
//     names that are not UTF-8), and there may be one for each stripe. One that is
//     decoded for each operation has its expired leases removed by the engine: it
//     sweeps only when it has grown.
//  3. A grant is in a write that fails if what was read has changed. A refusal may be answered from
//     a read alone, and be a little old; but where a write of this client may still be on its way,
//     let a Release write even if it finds nothing. Then a late acquire fails. No register may be
//     old, nor node.Rejoiner's Registers.
//  4. Take the time from the store, not from the client: two clients whose clocks differ must agree
//     on when a lease ends. If a write cannot read that clock, read it before each try, after Do
//     was called. Then a lease lasts for at least its TTL from there, and another holder's is found
//     to have ended late, never early. A clock that counts from the boot (node/clock) begins anew
//     with the next boot. What is stored with a time of it carries the boot's name
//     (node/clock/boot, rule.Store.InBoot), and Harness.Reboot shows that.
//  5. Names, holders and waiters are any bytes: not text, no patterns, no paths.
//  6. Keep at most node.Stripes registers, and free what has expired: a name that is locked once
//     must not be remembered for ever. A register is for ever. Refuse a store that is set up to
//     drop or expire it, or to acknowledge what it may lose, and name the setting. What cannot be
//     seen, the caller has to assert.
//  7. Send every operation once. Where a client library retries by itself, or keeps requests for a
//     connection to come, switch that off; refuse a client from outside that does it. What is not
//     known is an error, never an answer. An error is node.NotSent only if nothing was done and
//     never will be. That is before the write was handed to the library, or when the store says so.
//  8. Do returns soon after its context is done. Every operation returns an error after
//     Close, which frees all that was opened (not a client from outside) and waits for
//     all that was begun.
//  9. Engine returns the engine itself, a pointer. Be a node.Admin if the store can list
//     its leases: an operator wants to see who has what, and the suite sees more.
//  10. If the store can tell a client something without being asked, be a
//     node.Queuer, see below. Otherwise waiters poll: pass nil to rule.Serve for the queue,
//     and to Store.Begin for reachable.
//  11. If the store can lose its memory while its address stays the same, be a node.Rejoiner by
//     package admit. Implement admit.Store, and ask the Admission where the store has refused an
//     operation for want of a mark. The package decides when the store votes; nothing of that is
//     the engine's. What the engine answers for is the identity. The mark is compared with what the
//     store is now, inside each step that promises something. That identity changes whenever the
//     store may have lost, forked or been given another memory. RunAdmission has the scenes. If the
//     store cannot forget, be a node.Rejoiner for the sake of others: they are rebuilt from its
//     Registers.
//  12. Write one test with a Harness. Run opens one for each rule, some forty: start a server
//     once, and give each an empty store on it. Goroutines are counted, so a server is
//     best a process of its own.
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
//	func TestAdmission(t *testing.T) { // if the store can forget
//		nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
//			store := startEmptyStore(t)
//			return nodetest.Admission{Open: func() node.Node { return open(t, store) }, Wipe: store.wipe, Wait: time.Sleep}
//		})
//	}
//
// Then test what the suite cannot know. That is the store's own failures: full, restarted,
// replaced, unreachable while a request is under way, an answer that is lost after the write. Test
// several processes at once, a store that is set up wrongly, and that the messages say what to do
// about it.
//
// docs/adding-an-engine.md in fenlock's repository has the same in the order of the work,
// with examples; node/natsnode there is an engine that was written by it.
//
// # What a node.Queuer has to do
//
// The waiters of one name are in the order of their stamps, then of their bytes. The
// queues, the leases and the notifications are one state: each operation reads and
// writes them in one step. An engine in Go serves rule.Queue from where it keeps them,
// and after the step tells the waiter that rule.Serve has returned, once.
//
//  1. What is reserved for a waiter is a lease like any other, with the holder node.Reserved. So
//     clients that do not know of queues are refused by it. Where people see it, its label is
//     node.NextInQueue.
//  2. Whether a waiter can be told is asked within the same step, and has to be true of now. With a
//     list of clients that were there once, each client that has ended costs all waiters behind it
//     a second. Of the waiters of a client, all can be told or none: the client is what is before
//     the colon.
//  3. Listen refuses a client that could have no waiters: rule.CheckClient. It outlives its
//     context, broken connections and restarts of the store, and ends with Close. Whenever the
//     waiters were out of reach for a moment, notify("") follows, after they are in reach again,
//     and never otherwise.
//  4. Forget a queue rule.QueueExpiry after rule.Queue.Renew, or a second earlier, and
//     keep at most rule.MaxQueue waiters in it.
//  5. Answer.Clock is the clock that leases are counted by.
package nodetest
