#include "textflag.h"

// The kernel calls the handler on a thread of Go's, wherever that is: it may use nothing of Go's.
// The signal's number is in DI. Which byte is written, here of the stack, does not matter.
TEXT handler<>(SB), NOSPLIT|NOFRAME, $0-0
	DECQ	DI
	LOCK
	BTSQ	DI, ·pending(SB)
	MOVL	·writer(SB), DI
	MOVQ	SP, SI
	MOVL	$1, DX
	MOVL	$1, AX // SYS_write
	SYSCALL
	RET

// restorer<> ends the handler: the kernel puts back all that the thread had in its registers.
TEXT restorer<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVL	$15, AX // SYS_rt_sigreturn
	SYSCALL
	INT	$3 // not reached

// func addresses() (handler, restorer uintptr)
TEXT ·addresses(SB), NOSPLIT, $0-16
	LEAQ	handler<>(SB), AX
	MOVQ	AX, handler+0(FP)
	LEAQ	restorer<>(SB), AX
	MOVQ	AX, restorer+8(FP)
	RET
