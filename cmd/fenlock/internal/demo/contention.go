//go:build linux || darwin || freebsd

package demo

import (
	"fmt"
	"time"
)

// contention: several processes ask for one lock, one after the other, and get it in
// that order.
func contention(st *stage) {
	const name, ttl, many = "demo/orders", 5 * time.Second, 5
	st.tell("Five processes want the lock of one name. Who comes while it is taken waits in a queue, which the servers keep.")
	g := st.newGroupOrFile(5, ttl)
	clients := make([]*client, many)
	for i := range clients {
		clients[i] = g.client(fmt.Sprintf("client %d", i+1), ttl)
	}

	first := clients[0].do(order{Do: doAcquire, Name: name}, acquired)
	first.says(Holds, "asks, and has the lock after %s, token %d", short(first.Waited), first.Token)
	looks := g.locker(false)
	st.atEnd(func() { looks.Close() })
	for i, c := range clients[1:] {
		c.tell(order{Do: doAcquire, Name: name})
		waits := c.await(waiting)
		// The next one comes when this one is in the queue: then it is known who came first.
		st.until(c.name+" is in the queue", func() bool { return g.waiters(looks, name) > i })
		waits.says(Waits, "asks, and waits: number %d in the queue", i+1)
	}

	holder, had := clients[0], []said{first}
	for range clients[1:] {
		gave := holder.do(order{Do: doRelease}, released)
		gave.says(Gives, "is done, and gives the lock back")
		next := g.hear("whoever is next", func(r said) bool { return r.What == acquired })
		next.says(Holds, "has it %s later (waited %s), token %d",
			short(time.Duration(next.When-gave.When)), short(next.Waited), next.Token)
		st.require(next.When >= gave.When, "%s had the lock before %s gave it back", next.client.name, holder.name)
		holder, had = next.client, append(had, next)
	}
	holder.do(order{Do: doRelease}, released).says(Gives, "is done")

	for i, r := range had {
		st.require(r.client == clients[i], "%s was number %d", r.client.name, i+1)
		st.require(i == 0 || r.Token > had[i-1].Token, "%s got token %d after %d", r.client.name, r.Token, had[max(0, i-1)].Token)
	}
	st.say("demo", Checked, "checked: never two at a time, in the order in which they asked, each token larger than the one before")
}
