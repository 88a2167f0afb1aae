package main

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // RUSAGE_SELF and a valid pointer: there is nothing to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpu returns the CPU time that this process and the servers have used.
func (b *bench) cpu() (client, servers time.Duration, err error) {
	for _, s := range b.servers {
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, err := strconv.ParseFloat(s.Info("cpu", name), 64)
			if err != nil {
				return 0, 0, fmt.Errorf("%s of a server: %w", name, err)
			}
			servers += time.Duration(seconds * float64(time.Second))
		}
	}
	return cpuTime(), servers, nil
}

// calls is how often a server has been asked each command so far, by scripts too.
type calls map[string]int

// snapshot returns the calls of each server.
func snapshot(servers []*testserver.Server) []calls {
	all := make([]calls, len(servers))
	for i, s := range servers {
		all[i] = readCalls(s.Do("INFO", "commandstats"))
	}
	return all
}

// readCalls reads the lines "cmdstat_get:calls=3,usec=..." of INFO.
func readCalls(info string) calls {
	all := calls{}
	for line := range strings.Lines(info) {
		command, ok := strings.CutPrefix(line, "cmdstat_")
		name, rest, _ := strings.Cut(command, ":calls=")
		count, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(count); ok && err == nil {
			all[name] = n
		}
	}
	return all
}
