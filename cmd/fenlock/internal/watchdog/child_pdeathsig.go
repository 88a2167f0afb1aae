//go:build linux || freebsd

package watchdog

import "syscall"

// dieWithParent asks the kernel to kill the command if its watchdog is killed: fenlock
// does so too, unless it was killed at the same time.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
