package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of those of its descendants whose own has
// ended (PR_SET_CHILD_SUBREAPER). So none of them gets out of reach, whatever
// session or group it has moved to.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// adopts says that adoptOrphans does what it says.
const adopts = true

// descendants returns the processes that this one has started, they have, and so
// on; not those that have ended and wait for their parent. While they go on forking, some
// are missed: who wants to end all of them asks until there are none.
func descendants() []process {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	children := make(map[int][]process)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, parent, ok := readStat(pid); ok {
			children[parent] = append(children[parent], p)
		}
	}
	var all []process
	for next := children[os.Getpid()]; len(next) > 0; {
		p := next[0]
		all = append(all, p)
		next = append(next[1:], children[p.Pid]...)
	}
	return all
}

// readStat reads /proc/PID/stat, see proc(5). What has ended is left out, unless it has
// children: a thread of it goes on.
func readStat(pid int) (p process, parent int, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, 0, false
	}
	// The name is in parentheses, and may have some itself.
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return p, 0, false
	}
	fields := strings.Fields(string(text[shut+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return p, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return process{Pid: pid, Name: string(text[open+1 : shut]), Born: fields[19]}, parent, err == nil
}

// birth tells a process from one that has its id later.
func birth(pid int) (string, bool) {
	p, _, ok := readStat(pid)
	return p.Born, ok
}

// ownProgram is this program, even if another was put in its place meanwhile.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// nameProcess gives a process a name of its own in the lists of processes.
func nameProcess(name string) { os.WriteFile("/proc/self/comm", []byte(name), 0) }
