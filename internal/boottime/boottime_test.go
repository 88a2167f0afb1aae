package boottime

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestNowNeverGoesBack(t *testing.T) {
	last := Now()
	for range 10_000 {
		now := Now()
		if now < last {
			t.Fatalf("the clock went back from %v to %v", last, now)
		}
		last = now
	}
}

func TestNowAdvances(t *testing.T) {
	start := Now()
	time.Sleep(5 * time.Millisecond)
	// A sleep never ends early on this clock: it is at least the monotonic one.
	if elapsed := Now() - start; elapsed < 5*time.Millisecond {
		t.Errorf("after a sleep of 5ms the clock shows %v", elapsed)
	}
}

// /proc/uptime is the same clock (get_uptime reads CLOCK_BOOTTIME), so a wrong
// clock number in the system call shows.
func TestNowIsTheUptime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has CLOCK_BOOTTIME")
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Skipf("no /proc/uptime to compare with: %v", err)
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
