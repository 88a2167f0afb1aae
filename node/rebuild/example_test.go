package rebuild_test

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
)

// One of three nodes was restarted without its memory: the two others have what it promised.
func ExampleMerge() {
	self := rebuild.Self{Server: "c", Memory: "new"}
	b := &node.Registers{Server: "b", Memory: "b1", Admitted: true, Tokens: map[int]fence.Token{7: 33, 8: 12}}
	a := &node.Registers{Server: "a", Memory: "a1", Admitted: true, Tokens: map[int]fence.Token{7: 34}}

	_, err := rebuild.Merge(3, self, []*node.Registers{nil, b})
	fmt.Println("with one of them:", err != nil)
	result, err := rebuild.Merge(3, self, []*node.Registers{a, b})
	fmt.Println("with both:", result.Tokens, err)
	// Output:
	// with one of them: true
	// with both: map[7:34 8:12] <nil>
}
