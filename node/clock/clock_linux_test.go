package clock

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// /proc/uptime is the same clock (get_uptime reads CLOCK_BOOTTIME), so a wrong
// clock number in the system call shows.
func TestNowIsTheUptime(t *testing.T) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	after := Now()
	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	uptime := time.Duration(seconds * float64(time.Second))
	// Uptime is cut to 10 ms, and was read before.
	if after < uptime-20*time.Millisecond || after > uptime+time.Minute {
		t.Errorf("Now is %v, /proc/uptime was %v just before", after, uptime)
	}
}
