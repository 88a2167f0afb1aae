package rule_test

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// An engine serves a request on what it has read, and writes the entry back.
func ExampleServe() {
	var entry rule.Entry // of a name that was never locked
	acquire := node.Request{Op: node.Acquire, Name: "orders/42", Holder: "client-1", TTL: 10 * time.Second, Token: 33}
	for _, step := range []struct {
		at     time.Duration
		holder node.Holder
	}{{0, "client-1"}, {5 * time.Second, "client-2"}, {10 * time.Second, "client-2"}} {
		acquire.Holder = step.holder
		answer, _ := rule.Serve(&entry, nil, step.at, acquire)
		fmt.Println(step.at, answer.Status, answer.Register) // a refusal has no register
	}
	// Output:
	// 0s granted 33
	// 5s held 0
	// 10s granted 34
}
