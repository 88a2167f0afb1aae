package command

import (
	"syscall"
	"time"
	"unsafe"
)

// stopJob stops this process and all others of its job, as Ctrl-Z does, and returns when it goes
// on. Where no shell would continue it the kernel stops nothing, and it returns at once. All are
// sent the signal at once. A shell may continue the job as soon as it sees one of them stopped,
// which undoes what has not come to pass.
//
// Go catches the signal as long as it has been asked for once, also after signal.Reset. So the
// kernel is told what to do with it, and after that what it did before.
func stopJob() {
	var caught action
	setAction(&action{}, &caught)
	syscall.Kill(0, syscall.SIGTSTP)
	time.Sleep(stopTakes)
	setAction(&caught, nil)
}

// stopTakes is longer than it takes until another thread of this process has taken the signal, and
// all stop.
const stopTakes = 20 * time.Millisecond

// action is a struct sigaction of the kernel's. All zero it is the default.
type action struct {
	handler uintptr
	rest    [7]uint64 // the order differs from machine to machine
}

func setAction(to, from *action) {
	const setSize = 8 // of a sigset_t
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP), uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(from)), setSize, 0, 0)
}
