package admission

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

func TestDecide(t *testing.T) {
	const maxTTL = 30 * time.Second
	const out = 30*time.Second + 302*time.Millisecond + uptimeSlack // the longest lease, 1 % and 2 ms, rounding of INFO
	const long = time.Hour
	for _, c := range []struct {
		name string
		f    command.Facts
		want verdict
		left time.Duration
	}{
		{"first start, just now", command.Facts{ReplID: "b"}, waitRun, out},
		{"first start, a second ago", command.Facts{ReplID: "b", Uptime: time.Second}, waitRun, out - time.Second},
		{"first start, a nanosecond short", command.Facts{ReplID: "b", Uptime: out - 1}, waitRun, 1},
		{"first start, long enough ago", command.Facts{ReplID: "b", Uptime: out}, rebuildFirst, 0},
		{"restarted with a file", command.Facts{ReplID: "b", Marked: "a", Uptime: time.Second}, waitRun, out - time.Second},
		{"restarted with a file long ago", command.Facts{ReplID: "b", Marked: "a", Uptime: long}, rebuildFirst, 0},
		{"longer leases were recorded", command.Facts{ReplID: "b", Marked: "a", Terms: command.Terms{MaxTTL: time.Minute}, Uptime: out}, waitRun, time.Minute + time.Second - 30*time.Second + 300*time.Millisecond - uptimeSlack},

		{"the mark is this run's", command.Facts{ReplID: "b", Marked: "b"}, admit, 0},
		{"script cache flushed only", command.Facts{ReplID: "b", Marked: "b", ScriptsFlushed: true, Uptime: long}, admit, 0},
		{"admitted after a promotion", command.Facts{ReplID: "b", Marked: "b", Promoted: true, Uptime: long}, admit, 0},

		{"durable before and after", command.Facts{ReplID: "b", Marked: "a", WasDurable: true, AOF: true, FsyncAlways: true}, admit, 0},
		{"durable, but something was denied", command.Facts{ReplID: "b", Marked: "a", WasDurable: true, AOF: true, FsyncAlways: true, Denied: true}, waitRun, out},
		{"durable before, fsync every second now", command.Facts{ReplID: "b", Marked: "a", WasDurable: true, AOF: true}, waitRun, out},
		{"durable before, no file now", command.Facts{ReplID: "b", Marked: "a", WasDurable: true, FsyncAlways: true}, waitRun, out},
		{"durable only now", command.Facts{ReplID: "b", Marked: "a", AOF: true, FsyncAlways: true}, waitRun, out},
		{"durable, but wiped", command.Facts{ReplID: "b", AOF: true, FsyncAlways: true}, waitRun, out},
		{"durable, but promoted", command.Facts{ReplID: "b", Marked: "a", WasDurable: true, AOF: true, FsyncAlways: true, Promoted: true, Uptime: long}, waitNow, 0},

		{"promoted, up for long", command.Facts{ReplID: "b", Marked: "a", Promoted: true, Uptime: long}, waitNow, 0},
		{"promoted, without data", command.Facts{ReplID: "b", Promoted: true, Uptime: long}, waitNow, 0},
		{"flushed", command.Facts{ReplID: "b", ScriptsLoaded: true, Uptime: long}, waitNow, 0},
		{"flushed, scripts too", command.Facts{ReplID: "b", ScriptsFlushed: true, Uptime: long}, waitNow, 0},
		{"a file was loaded under loaded scripts", command.Facts{ReplID: "b", Marked: "a", WasDurable: true, AOF: true, FsyncAlways: true, ScriptsLoaded: true}, waitNow, 0},
	} {
		if v, left := decide(c.f, maxTTL); v != c.want || left != c.left {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, v, left, c.want, c.left)
		}
	}
}
