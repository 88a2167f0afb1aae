package main

import "syscall"

// dieWithParent does nothing: macOS has no signal for the death of the parent. A
// command goes on if fenlock is killed with SIGKILL, and its lock runs out.
func dieWithParent(*syscall.SysProcAttr) {}
