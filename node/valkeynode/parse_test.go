package valkeynode

import (
	"context"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// Replies as the scripts could give them, read as operate does.
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
		reply string // Lua
		want  node.Answer
		again bool
		fails bool
	}{
		{reply: "7", want: node.Answer{Status: node.Granted, Register: 7}},
		{reply: "9007199254740991", want: node.Answer{Status: node.Granted, Register: 1<<53 - 1}},
		{reply: "{7}", want: node.Answer{Status: node.Outrun, Register: 7}},
		{reply: "'lost'", want: node.Answer{Status: node.Lost}},
		{reply: "'rejoining'", again: true},
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
		message, err := n.do(ctx, n.client.B().Eval().Script("return "+test.reply).Numkeys(0).Build())
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		got, again, err := parse(message, err)
		if err == nil && test.fails || err != nil && !test.fails || err == nil && got != test.want || again != test.again {
			t.Errorf("%s: %+v, again %v, %v; want %+v, again %v, fails %v", test.reply, got, again, err, test.want, test.again, test.fails)
		}
	}
}

// A subscription takes a place in the library's ring until it is confirmed, and
// none afterwards, however often it is lost and renewed.
func TestListeningGivesItsSlotBack(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	n, err := Open(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	events := make(chan string, 10)
	if err := n.Listen(ctx, "0123456789abcdef0123456789abcdef", func(waiter string) { events <- waiter }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if len(n.slots) != 0 {
			t.Fatalf("%d slots taken", len(n.slots))
		}
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		select {
		case <-events:
		case <-ctx.Done():
			t.Fatal("no event")
		}
	}
}
