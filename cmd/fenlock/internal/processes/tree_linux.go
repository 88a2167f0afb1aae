package processes

import (
	"os"
	"slices"
	"strconv"
	"syscall"
)

// AdoptOrphans makes this process the parent of those of its descendants whose own has
// ended (PR_SET_CHILD_SUBREAPER). So none of them gets out of reach, whatever
// session or group it has moved to.
func AdoptOrphans() {
	const setChildSubreaper = 36
	syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
}

// Adopts says that AdoptOrphans does what it says.
const Adopts = true

// Descendants returns the processes that this one has started, they have, and so
// on; not those that have ended and wait for their parent. While they go on forking, some
// are missed: who wants to end all of them asks until there are none.
func Descendants() []Process {
	if childless() {
		return nil // what is usual, and /proc may have thousands of others
	}
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	children := make(map[int][]Process)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, parent, ok := readStat(pid); ok {
			children[parent] = append(children[parent], p)
		}
	}
	var all []Process
	for next := children[os.Getpid()]; len(next) > 0; {
		p := next[0]
		all = append(all, p)
		next = append(next[1:], children[p.Pid]...)
	}
	return all
}

// childless reports whether this process has no children, ended ones included, of any kind:
// then it has no descendants.
func childless() bool {
	const anyChild, everyKind = 0, 0x40000000 // P_ALL, __WALL
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_WAITID, anyChild, 0, 0,
			syscall.WEXITED|syscall.WNOHANG|syscall.WNOWAIT|everyKind, 0, 0)
		if errno != syscall.EINTR {
			return errno == syscall.ECHILD
		}
	}
}

// readStat reads /proc/PID/stat, see proc(5). What has ended is left out, unless it has
// children: a thread of it goes on.
func readStat(pid int) (p Process, parent int, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, 0, false
	}
	// The name is in parentheses, and may have some itself. What follows has none.
	open, shut := slices.Index(text, '('), len(text)-1
	for shut >= 0 && text[shut] != ')' {
		shut--
	}
	if open < 0 || shut < open {
		return p, 0, false
	}
	fields := words(string(text[shut+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return p, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return Process{Pid: pid, Name: string(text[open+1 : shut]), Born: fields[19]}, parent, err == nil
}

// words is strings.Fields for a file of the kernel's. Packages strings and bytes need
// unicode, whose path has much of the library initialised before it, and this package.
func words(text string) (all []string) {
	begin := 0
	for i := range len(text) + 1 {
		if i < len(text) && text[i] > ' ' {
			continue
		}
		if i > begin {
			all = append(all, text[begin:i])
		}
		begin = i + 1
	}
	return all
}

// Birth tells a process from one that has its id later.
func Birth(pid int) (string, bool) {
	p, _, ok := readStat(pid)
	return p.Born, ok
}

// OwnProgram is this program, even if another was put in its place meanwhile.
func OwnProgram() (string, error) { return "/proc/self/exe", nil }

// Rename gives this process a name of its own in the lists of processes.
func Rename(name string) { os.WriteFile("/proc/self/comm", []byte(name), 0) }
