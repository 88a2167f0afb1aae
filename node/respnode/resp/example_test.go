package resp_test

import (
	"fmt"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

// A Link translates what its library has received.
func ExampleReply() {
	reply := resp.List([]resp.Reply{resp.Text("a"), resp.Number(1)})
	list, err := reply.ToList()
	fmt.Println(len(list), err)
	text, err := list[0].ToString()
	fmt.Println(text, err)
	number, err := list[1].AsInt64()
	fmt.Println(number, err)

	refused := resp.Failure(resp.Error("NOAUTH Authentication required."))
	_, err = refused.ToString()
	said, ok := resp.IsError(err)
	fmt.Println(said, ok)
	// Output:
	// 2 <nil>
	// a <nil>
	// 1 <nil>
	// NOAUTH Authentication required. true
}
