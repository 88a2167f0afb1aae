package caught

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// pending are the signals that have come since it was read, N as the bit N-1. writer is the end of
// a pipe that the handler writes a byte to then. See handler_linux_amd64.s.
var (
	pending atomic.Uint64
	writer  int32
)

// told are the channels of each signal.
var told struct {
	sync.Mutex
	begun, broken bool // the pipe is there, or could not be made
	channels      [65][]chan<- os.Signal
}

// notify has a channel told of a signal. Without a pipe, as where no file may be opened any more,
// os/signal does.
func notify(c chan<- os.Signal, sig syscall.Signal) {
	told.Lock()
	defer told.Unlock()
	if !told.begun {
		told.begun, told.broken = true, begin() != nil
	}
	if told.broken {
		signal.Notify(c, sig)
		return
	}
	if slices.Contains(told.channels[sig], c) {
		return
	}
	told.channels[sig] = append(told.channels[sig], c)
	if len(told.channels[sig]) == 1 {
		catch(sig)
	}
}

// begin makes the pipe, and has it read. The handler never waits: what does not fit into the pipe
// is not needed, as there is enough to be read.
func begin() error {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return err
	}
	writer = int32(ends[1])
	go read(os.NewFile(uintptr(ends[0]), "signals"))
	return nil
}

func read(pipe *os.File) {
	var some [64]byte
	for {
		if _, err := pipe.Read(some[:]); err != nil {
			panic("fenlock: caught: " + err.Error()) // nothing closes either end
		}
		tell(pending.Swap(0))
	}
}

// tell does not wait for a channel that is full, as signal.Notify does not.
func tell(set uint64) {
	told.Lock()
	defer told.Unlock()
	for sig := 1; set != 0; sig, set = sig+1, set>>1 {
		if set&1 == 0 {
			continue
		}
		for _, c := range told.channels[sig] {
			select {
			case c <- syscall.Signal(sig):
			default:
			}
		}
	}
}

// action is a struct sigaction of the kernel's.
type action struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// catch has the kernel call the handler, on the stack that each thread of Go's has for signals.
func catch(sig syscall.Signal) {
	const onStack, restart, hasRestorer = 0x08000000, 0x10000000, 0x04000000 // SA_ONSTACK, SA_RESTART, SA_RESTORER
	a := action{flags: onStack | restart | hasRestorer, mask: 1<<64 - 1}
	a.handler, a.restorer = addresses()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&a)), 0,
		unsafe.Sizeof(a.mask), 0, 0)
	if errno != 0 {
		panic("fenlock: sigaction: " + errno.Error()) // of a signal that is none
	}
}

// addresses returns those of the handler and of what returns from it to the kernel.
func addresses() (handler, restorer uintptr)
