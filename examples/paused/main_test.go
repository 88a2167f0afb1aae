package main

func Example() {
	main()
	// Output:
	// Without a guard:
	//   client 1 takes the lock for 30s and reads the balance, 100
	//   client 2 tries, and is told that the lock is held
	//   client 1 asks its lock if it still holds: true
	//   client 1 is paused for a minute, before it writes; its lease runs out
	//   client 2 takes the lock and reads the balance, 100; its token is larger: true
	//   client 2 withdraws 50 and writes the balance, 50
	//   client 1 wakes up
	//   client 1 withdraws 30 and writes the balance, 70
	//   both have withdrawn, 80 in all, and the balance is 70: client 2's write is lost
	//
	// With fence.Guard in front of the account:
	//   client 1 takes the lock for 30s and reads the balance, 100
	//   client 2 tries, and is told that the lock is held
	//   client 1 asks its lock if it still holds: true
	//   client 1 is paused for a minute, before it writes; its lease runs out
	//   client 2 takes the lock and reads the balance, 100; its token is larger: true
	//   client 2 withdraws 50 and writes the balance, 50
	//   client 1 wakes up
	//   client 1 withdraws 30 and writes the balance, 70: refused, its token is stale
	//   client 2's write stands, the balance is 50: nothing is lost
}
