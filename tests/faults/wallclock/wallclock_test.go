//go:build linux

package wallclock

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	boottime "github.com/fenlock/fenlock/node/clock"
)

// All ways to ask for the wall clock move, and nothing else does.
func TestWallclock(t *testing.T) {
	clock := New(t, Build(t))
	program := filepath.Join(t.TempDir(), "clocks")
	compile := exec.Command("cc", "-D_GNU_SOURCE", "-x", "c", "-o", program, "-")
	compile.Stdin = strings.NewReader(`
		#include <stdio.h>
		#include <sys/time.h>
		#include <time.h>
		static void show(clockid_t clock) {
			struct timespec ts;
			clock_gettime(clock, &ts);
			printf("%lld\n", (long long)ts.tv_sec);
		}
		int main(void) {
			struct timeval tv;
			struct timespec ts;
			time_t at;
			gettimeofday(&tv, 0);
			printf("%lld\n", (long long)tv.tv_sec);
			printf("%lld\n", (long long)time(0));
			time(&at);
			printf("%lld\n", (long long)at);
			timespec_get(&ts, TIME_UTC);
			printf("%lld\n", (long long)ts.tv_sec);
			show(CLOCK_REALTIME);
			show(CLOCK_REALTIME_COARSE);
			show(CLOCK_BOOTTIME);
			show(CLOCK_MONOTONIC);
		}`)
	if output, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	const year = 365 * 24 * time.Hour
	if err := clock.Check(os.Getpid()); err == nil {
		t.Error("a process that has not loaded the library passes for one that has")
	}
	monotonic := time.Duration(0)
	for _, off := range []time.Duration{0, time.Hour + time.Second/2, -year, year} {
		clock.Step(off - clock.Off())
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), clock.Environment...)
		output, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Fields(string(output)) {
			seconds, _ := strconv.Atoi(line)
			got := time.Duration(seconds) * time.Second
			want := time.Duration(time.Now().UnixNano()) + off
			switch i {
			case 6:
				want = boottime.Now()
			case 7:
				if off == 0 {
					monotonic = got
				}
				want = monotonic
			}
			if (got - want).Abs() > time.Minute {
				t.Errorf("offset %v: the clock in line %d is off by %v", off, i+1, got-want)
			}
		}
	}
}
