//go:build linux || freebsd

package main

import "syscall"

// dieWithParent asks the kernel to kill the command if fenlock is killed: nobody
// would extend its lock, and nobody would stop it when the lock is lost. It
// reaches the command itself, not the processes that the command started.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
