//go:build linux || darwin || freebsd

package watchdog

import (
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/processes"
)

// What is told arrives as it was, whatever bytes are in it.
func TestMessages(t *testing.T) {
	bytes := ""
	for b := range 256 {
		bytes += string([]byte{byte(b)})
	}
	a, b := links(t)
	orders, news := b.Orders(), a.News()
	for _, o := range []Order{
		{},
		{Gone: true},
		{Signal: syscall.SIGUSR2},
		{Answer: &Answer{Asked: 1<<64 - 1, Left: -time.Hour}},
		{Job: &Job{Args: []string{"", bytes}, Env: []string{"A=" + bytes}, Ignored: []syscall.Signal{1, 64}, Foreground: true,
			TTL: 1<<63 - 1}, Answer: &Answer{}},
		{Job: &Job{}},
	} {
		if !a.Tell(o) {
			t.Fatal("not sent")
		}
		if got := <-orders; !reflect.DeepEqual(got, o) {
			t.Errorf("%+v, want %+v", got, o)
		}
	}
	for _, n := range []News{
		{},
		{Asks: 1 << 63},
		{Started: 4194304},
		{Failed: &Failed{Late: true}},
		{Failed: &Failed{Errno: syscall.ENOEXEC}},
		{Report: &Report{Do: Kill, Left: -1, Denied: true}},
		{Say: bytes},
		{NeedsTerminal: true},
		{Suspended: true},
		{Ended: &Ended{How: 0x7f00, Stopped: true, Survivors: []processes.Process{{Pid: 1, Name: bytes, Born: "2"}, {}}}},
	} {
		if !b.Report(n) {
			t.Fatal("not sent")
		}
		if got := <-news; !reflect.DeepEqual(got, n) {
			t.Errorf("%+v, want %+v", got, n)
		}
	}
}

// What was not read whole is not taken for a message.
func TestHalfAMessageIsNone(t *testing.T) {
	a, b := links(t)
	o := Order{Job: &Job{Args: []string{"a"}}, Answer: &Answer{}}
	var c coder
	o.fields(&c)
	for short := range len(c.text) {
		var got Order
		half := coder{text: c.text[:short], reading: true}
		if got.fields(&half); !half.short {
			t.Errorf("%d bytes of %d are taken for %+v", short, len(c.text), got)
		}
	}
	// A message of another kind, after which there is more to read.
	if !a.(*socket).send(time.Second, func(c *coder) { o.fields(c); o.fields(c) }) {
		t.Fatal("not sent")
	}
	if got, more := <-b.Orders(); more {
		t.Errorf("%+v", got)
	}
}
