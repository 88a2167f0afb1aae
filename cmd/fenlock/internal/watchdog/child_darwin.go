package watchdog

import "syscall"

// dieWithParent does nothing: macOS has no signal for the death of the parent. A command
// goes on if fenlock and its watchdog are killed at the same time.
func dieWithParent(*syscall.SysProcAttr) {}
