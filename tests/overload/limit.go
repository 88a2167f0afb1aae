//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/fenlock/fenlock/internal/testserver"
)

// period is the time of which a server gets its share, in microseconds: a short one, so that a
// server is slow rather than away.
const period = 20_000

// shares are what servers may use of the processors.
type shares struct{ folders []string }

// end is for when the servers are gone.
func (s *shares) end() {
	for _, f := range s.folders {
		os.Remove(f)
	}
}

// limit gives each server so many hundredths of a core, by cgroups, and that before the clients. No
// server waits for a processor that a client has. Without the rights to that, all servers get one
// core.
func (s *shares) limit(servers []*testserver.Server, percent int) (err error) {
	write := func(folder, file, text string) {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644)
		}
	}
	quota := period * percent / 100
	for _, server := range servers {
		pid := strconv.Itoa(server.Pid())
		root, second := "/sys/fs/cgroup", true // the version of cgroups
		if _, missing := os.Stat(root + "/cgroup.controllers"); missing != nil {
			root, second = root+"/cpu", false
		}
		folder := filepath.Join(root, "fenlock-overload-"+pid)
		if err = os.Mkdir(folder, 0o755); err != nil {
			break
		}
		s.folders = append(s.folders, folder)
		if second {
			write(folder, "cpu.max", fmt.Sprint(quota, " ", period))
			write(folder, "cpu.weight", "10000")
		} else {
			write(folder, "cpu.cfs_period_us", strconv.Itoa(period))
			write(folder, "cpu.cfs_quota_us", strconv.Itoa(quota))
			write(folder, "cpu.shares", "262144")
		}
		write(folder, "cgroup.procs", pid)
	}
	if err == nil {
		return nil
	}
	for _, server := range servers {
		pin := exec.Command("taskset", "-a", "-p", "-c", "0", strconv.Itoa(server.Pid()))
		if out, err := pin.CombinedOutput(); err != nil {
			return fmt.Errorf("no cgroups, and no taskset: %w: %s", err, out)
		}
	}
	return nil
}
