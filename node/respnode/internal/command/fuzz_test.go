package command

import (
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
)

// FuzzReply decodes whatever a server, or what pretends to be one, could reply to a script. The
// result is an error, or an answer that the Locker can compute with.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		":7\r\n", ":0\r\n", ":9007199254740991\r\n", "*1\r\n:7\r\n", "*1\r\n$1\r\n7\r\n", bulk("lost"), bulk("rejoining"),
		"+lost\r\n", bulk("maxttl 100"),
		refusal(bulk(holder), 250, 3, 1732161439123456), refusal("$-1\r\n", -2, 0, 1),
		refusal(bulk("next:"+holder), -1, 0, 1),
		refusal(bulk("shared:7\n1732161439123 7 0 "+holder+"\n1732161439123 7 0 next:"+holder), 250, 0, 1),
		"*4\r\n:1\r\n:9223372036854775807\r\n:9223372036854775807\r\n:-9223372036854775808\r\n",
		"*4\r\n*1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n",
		"*0\r\n", "*1\r\n*0\r\n", "*1\r\n_\r\n", "*1\r\n+x\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n",
		"(9999999999999999999999\r\n", "=7\r\ntxt:abc\r\n",
		"%1\r\n+a\r\n:1\r\n", "~1\r\n:7\r\n", "-ERR x\r\n", "-NOSCRIPT x\r\n", "!5\r\nERR x\r\n", "-", "", ":\r\n",
		"*2\r\n:1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		reply, _ := replytest.Message(input)
		answer, notAdmitted, err := Parse(&node.Request{Op: node.Acquire}, reply, nil)
		replytest.CheckAnswer(t, input, answer, notAdmitted, err)
		if reply.Err() == nil && err == nil && !notAdmitted {
			// Each kind of reply stands for one kind of answer.
			values, _ := reply.ToList()
			want := map[bool]node.Status{reply.IsNumber(): node.Granted, len(values) == 1: node.Outrun,
				len(values) == 4: node.Held, !reply.IsNumber() && !reply.IsList(): node.Lost}[true]
			if answer.Status != want {
				t.Errorf("%q was read as %+v", input, answer)
			}
		}
	})
}
