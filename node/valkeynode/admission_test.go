package valkeynode

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const maxTTL = 30 * time.Second
	const out = 30*time.Second + 302*time.Millisecond + uptimeSlack // the longest lease, 1 % and 2 ms, rounding of INFO
	const long = time.Hour
	for _, c := range []struct {
		name string
		f    facts
		want verdict
		left time.Duration
	}{
		{"first start, just now", facts{replID: "b"}, waitRun, out},
		{"first start, a second ago", facts{replID: "b", uptime: time.Second}, waitRun, out - time.Second},
		{"first start, a nanosecond short", facts{replID: "b", uptime: out - 1}, waitRun, 1},
		{"first start, long enough ago", facts{replID: "b", uptime: out}, rebuildFirst, 0},
		{"restarted with a file", facts{replID: "b", marked: "a", uptime: time.Second}, waitRun, out - time.Second},
		{"restarted with a file long ago", facts{replID: "b", marked: "a", uptime: long}, rebuildFirst, 0},
		{"longer leases were recorded", facts{replID: "b", marked: "a", maxTTL: time.Minute, uptime: out}, waitRun, time.Minute + time.Second - 30*time.Second + 300*time.Millisecond - uptimeSlack},

		{"the mark is this run's", facts{replID: "b", marked: "b"}, admit, 0},
		{"script cache flushed only", facts{replID: "b", marked: "b", scriptsFlushed: true, uptime: long}, admit, 0},
		{"admitted after a promotion", facts{replID: "b", marked: "b", promoted: true, uptime: long}, admit, 0},

		{"durable before and after", facts{replID: "b", marked: "a", wasDurable: true, aof: true, fsyncAlways: true}, admit, 0},
		{"durable before, fsync every second now", facts{replID: "b", marked: "a", wasDurable: true, aof: true}, waitRun, out},
		{"durable before, no file now", facts{replID: "b", marked: "a", wasDurable: true, fsyncAlways: true}, waitRun, out},
		{"durable only now", facts{replID: "b", marked: "a", aof: true, fsyncAlways: true}, waitRun, out},
		{"durable, but wiped", facts{replID: "b", aof: true, fsyncAlways: true}, waitRun, out},
		{"durable, but promoted", facts{replID: "b", marked: "a", wasDurable: true, aof: true, fsyncAlways: true, promoted: true, uptime: long}, waitNow, 0},

		{"promoted, up for long", facts{replID: "b", marked: "a", promoted: true, uptime: long}, waitNow, 0},
		{"promoted, without data", facts{replID: "b", promoted: true, uptime: long}, waitNow, 0},
		{"flushed", facts{replID: "b", scriptsLoaded: true, uptime: long}, waitNow, 0},
		{"flushed, scripts too", facts{replID: "b", scriptsFlushed: true, uptime: long}, waitNow, 0},
		{"a file was loaded under loaded scripts", facts{replID: "b", marked: "a", wasDurable: true, aof: true, fsyncAlways: true, scriptsLoaded: true}, waitNow, 0},
	} {
		if v, left := decide(c.f, maxTTL); v != c.want || left != c.left {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, v, left, c.want, c.left)
		}
	}
}
