package valkeynode

import (
	"context"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
)

// Replies as the scripts could give them, read as Do does.
func TestParse(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	n, err := Open(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	const holder = "0123456789abcdef0123456789abcdef:label"
	held := func(by string, remaining time.Duration, ahead int, clock time.Duration) node.Answer {
		return node.Answer{Status: node.Held, HeldBy: by, Remaining: remaining, Ahead: ahead, Clock: clock}
	}
	for _, test := range []struct {
		reply       string // Lua
		want        node.Answer
		notAdmitted bool
		fails       bool
	}{
		{reply: "7", want: node.Answer{Status: node.Granted, Register: 7}},
		{reply: "9007199254740991", want: node.Answer{Status: node.Granted, Register: 1<<53 - 1}},
		{reply: "{7}", want: node.Answer{Status: node.Outrun, Register: 7}},
		{reply: "'lost'", want: node.Answer{Status: node.Lost}},
		{reply: "'rejoining'", notAdmitted: true},
		{reply: "{'" + holder + "', 250, 3, 1732161439123456}", want: held("label", 250*time.Millisecond, 3, 1732161439123456*time.Microsecond)},
		{reply: "{'" + holder + "', -1, 0, 1}", want: held("label", 0, 0, time.Microsecond)},
		{reply: "{'next:0123456789abcdef0123456789abcdef:1', 999, 0, 1}", want: held(node.NextInQueue, 999*time.Millisecond, 0, time.Microsecond)},
		{reply: "{'foreign', 1, 2, 3}", want: held("", time.Millisecond, 2, 3*time.Microsecond)},
		{reply: "{false, -2, 2, 3}", want: held("", 0, 2, 3*time.Microsecond)},
		{reply: "{'foreign', 1}", fails: true},
		{reply: "{'foreign', 1, 2, 3, 4}", fails: true},
		{reply: "{'foreign', 1, 'many', 3}", fails: true},
		{reply: "{'foreign', 1, 2, 'noon'}", fails: true},
		{reply: "{'foreign', 'soon', 2, 3}", fails: true},
		{reply: "{}", fails: true},
		{reply: "'hello'", fails: true},
		{reply: "'maxttl 100'", fails: true},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		message, err := n.conn.Do(ctx, n.conn.B().Eval().Script("return "+test.reply).Numkeys(0).Build())
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		got, notAdmitted, err := command.Parse(node.Acquire, message, err)
		if err == nil && test.fails || err != nil && !test.fails || err == nil && got != test.want || notAdmitted != test.notAdmitted {
			t.Errorf("%s: %+v, not admitted %v, %v; want %+v, not admitted %v, fails %v", test.reply, got, notAdmitted, err, test.want, test.notAdmitted, test.fails)
		}
	}
}
