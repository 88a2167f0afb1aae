//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/clock"
)

// All ways to ask for the wall clock move, and nothing else does.
func TestWallclock(t *testing.T) {
	wall := newWallclock(t, buildWallclock(t))
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
	monotonic := time.Duration(0)
	for _, off := range []time.Duration{0, time.Hour + time.Second/2, -year, year} {
		wall.step(off - wall.off())
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), wall.environment...)
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
				want = clock.Now()
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

// What the servers make of it: their TIME, their uptime, and the end of leases.
func TestWallclockMovesServers(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		st := &stage{t: t, c: newCluster(t, kind, 1, always, 1)}
		m := st.c.members[0]
		number := func(text string) int {
			t.Helper()
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		offset := func() time.Duration {
			seconds := number(strings.Fields(strings.Trim(st.server(0, "TIME"), "[]"))[0])
			return time.Until(time.Unix(int64(seconds), 0))
		}
		left := func(key string) time.Duration {
			return time.Duration(number(st.server(0, "PTTL", key))) * time.Millisecond
		}
		about := func(what string, got, want time.Duration) {
			t.Helper()
			if (got - want).Abs() > time.Minute { // generous, the steps are larger
				t.Errorf("%s is %v, want about %v", what, got, want)
			}
		}
		st.server(0, "SET", "short", "1", "PX", "3600000")
		st.server(0, "SET", "long", "1")
		st.server(0, "PEXPIRE", "long", "36000000")

		m.clock.step(5 * time.Hour)
		about("TIME", offset(), 5*time.Hour)
		about("the long lease", left("long"), 5*time.Hour)
		if reply := st.server(0, "GET", "short"); reply != "(nil)" {
			t.Errorf("the short lease is still there: %q", reply)
		}
		// INFO shows a time that the server looks up ten times a second.
		uptime := time.Duration(0)
		for end := time.Now().Add(patientTimeout); uptime < 4*time.Hour && time.Now().Before(end); time.Sleep(pollInterval) {
			uptime = time.Duration(number(field(st.server(0, "INFO", "server"), "uptime_in_seconds"))) * time.Second
		}
		about("the uptime", uptime, 5*time.Hour)

		m.clock.step(-20 * time.Hour)
		about("TIME after a step back", offset(), -15*time.Hour)
		about("the long lease after it", left("long"), 25*time.Hour)

		// A restart keeps the clock, and the end of a lease is a time of day.
		if err := m.kill(false); err != nil {
			t.Fatal(err)
		}
		if err := m.restart(); err != nil {
			t.Fatal(err)
		}
		about("TIME after a restart", offset(), -15*time.Hour)
		about("the long lease after it", left("long"), 25*time.Hour)
		m.clock.step(15 * time.Hour)
		about("TIME at the end", offset(), 0)
	})
}

func TestServerWithoutWallclock(t *testing.T) {
	st := newStage(t, 1, off)
	m := st.c.members[0]
	m.clock.library = "another"
	if err := m.checkClock(); err == nil {
		t.Error("a server that has not loaded the library passes for one that has")
	}
}
