package admit_test

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

func ExampleDecide() {
	client := admit.Client{Terms: admit.Terms{MaxTTL: 30 * time.Second, Members: "a b c"}, Nodes: 3}
	store := admit.Facts{Memory: "m", Terms: client.Terms, Recorded: true, Cause: node.Restarted, Counted: true,
		Out: 20 * time.Second}
	v := admit.Decide(store, client, nil, false)
	fmt.Println(v.Do == admit.Wait, v.Absence)
	// Output: true it was started a short time ago and may have forgotten leases; voting starts in 11 s
}
