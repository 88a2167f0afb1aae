package command

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
)

const holder = "0123456789abcdef0123456789abcdef:label"

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// refusal is the reply that refuses an acquire.
func refusal(holder string, remaining, ahead, clock any) string {
	return fmt.Sprintf("*4\r\n%s:%v\r\n:%v\r\n:%v\r\n", holder, remaining, ahead, clock)
}

func TestParse(t *testing.T) {
	held := func(by node.Holder, label string, remaining time.Duration, ahead int, clock time.Duration) node.Answer {
		return node.Answer{Status: node.Held, HeldBy: label, Holder: by.Fingerprint(), Remaining: remaining, Ahead: ahead,
			Clock: clock}
	}
	reserved := node.Holder("next:" + holder[:32] + ":1")
	for _, c := range []struct {
		op          node.Op // an acquire, if none is given
		reply       string
		want        node.Answer
		notAdmitted bool
		fails       bool
	}{
		{reply: ":7\r\n", want: node.Answer{Status: node.Granted, Register: 7}},
		{reply: ":9007199254740991\r\n", want: node.Answer{Status: node.Granted, Register: 1<<53 - 1}},
		{op: node.Confirm, reply: "*1\r\n:7\r\n", want: node.Answer{Status: node.Outrun, Register: 7}},
		{op: node.Release, reply: ":1\r\n", want: node.Answer{Status: node.Granted}},
		// Each refusal is that of one operation.
		{reply: "*1\r\n:7\r\n", fails: true},
		{op: node.Release, reply: "*1\r\n:7\r\n", fails: true},
		{op: node.Extend, reply: refusal(bulk(holder), 250, 3, 1), fails: true},
		{op: node.Confirm, reply: refusal(bulk(holder), 250, 3, 1), fails: true},
		{reply: bulk("lost"), want: node.Answer{Status: node.Lost}},
		{reply: bulk("rejoining"), notAdmitted: true},
		{reply: refusal(bulk(holder), 250, 3, 1732161439123456),
			want: held(holder, "label", 250*time.Millisecond, 3, 1732161439123456*time.Microsecond)},
		{reply: refusal(bulk(holder), -1, 0, 1), want: held(holder, "label", 0, 0, time.Microsecond)},
		{reply: refusal(bulk(string(reserved)), 999, 0, 1),
			want: held(reserved, node.NextInQueue, 999*time.Millisecond, 0, time.Microsecond)},
		{reply: refusal(bulk("foreign"), 1, 2, 3), want: held("foreign", "", time.Millisecond, 2, 3*time.Microsecond)},
		{reply: refusal("$-1\r\n", -2, 2, 3), want: held("", "", 0, 2, 3*time.Microsecond)},
		{reply: "*2\r\n" + bulk("foreign") + ":1\r\n", fails: true},
		{reply: "*5\r\n" + bulk("foreign") + ":1\r\n:2\r\n:3\r\n:4\r\n", fails: true},
		{reply: "*4\r\n" + bulk("foreign") + ":1\r\n" + bulk("many") + ":3\r\n", fails: true},
		{reply: "*4\r\n" + bulk("foreign") + ":1\r\n:2\r\n" + bulk("noon"), fails: true},
		{reply: "*4\r\n" + bulk("foreign") + bulk("soon") + ":2\r\n:3\r\n", fails: true},
		{reply: "*0\r\n", fails: true},
		{reply: bulk("hello"), fails: true},
		{reply: bulk("maxttl 100"), fails: true},
	} {
		reply, _ := replytest.Message([]byte(c.reply))
		got, notAdmitted, err := Parse(&node.Request{Op: cmp.Or(c.op, node.Acquire)}, reply, nil)
		if (err != nil) != c.fails || err == nil && got != c.want || notAdmitted != c.notAdmitted {
			t.Errorf("%q: %+v, not admitted %v, %v; want %+v", c.reply, got, notAdmitted, err, c)
		}
	}
}
