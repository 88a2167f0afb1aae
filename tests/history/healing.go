package history

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/internal/check"
)

// healing checks that no lock was lost while a majority of the nodes did what its client
// needs of them. The clients tell when one did not.
func (x *examination) healing() {
	clients := make(map[int]*check.Healing)
	held := make(map[int]map[*tenure]bool) // by client; true if a node failed it
	for i, e := range x.Events {
		if e.Client == 0 {
			continue
		}
		c := clients[e.Client]
		if c == nil {
			h := check.NewHealing(x.Header.Nodes, x.Header.Nodes/2+1, x.Header.TTL)
			c = &h
			clients[e.Client], held[e.Client] = c, make(map[*tenure]bool)
		}
		t, at := x.of[i], time.Duration(e.At)
		switch e.Kind {
		case Missed:
			c.Missed(e.Node-1, at-x.Header.TTL/4, at) // a node timeout is no longer
			for t := range held[e.Client] {
				held[e.Client][t] = true
			}
		case Absent:
			c.Absent(time.Duration(e.Until))
		case Acquired:
			c.Begins(t.id(), at)
			held[e.Client][t] = false
		case Release:
			c.Ends(t.id(), false, at)
			if held[e.Client][t] {
				x.report.Stood++
			}
			delete(held[e.Client], t)
		case Ended:
			x.report.Gone++
			if v := c.Ends(t.id(), true, at); v != "" {
				assumption, _ := x.faults.breaks(t.asked, e.At)
				x.violated(e.At, Healing, assumption,
					fmt.Sprintf("%q: %v, %v after the start: %s: %s", t.name, t, x.since(e.At), v, e.Text))
			}
			delete(held[e.Client], t)
		}
	}
}
