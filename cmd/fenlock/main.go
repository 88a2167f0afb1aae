//go:build linux || darwin || freebsd

// Command fenlock runs a command while it holds a distributed lock:
//
//	fenlock run NAME -- COMMAND [ARG...]
//
// "fenlock run --help" explains the nodes, the exit statuses and the environment.
// It runs on Linux, macOS and FreeBSD. Windows has neither process groups nor
// signals, and so no way to stop a command in time when its lock is lost.
//
// It is small, because it starts with each command that is locked. What links large libraries and
// is seldom wanted is in fenlock-all, beside it, which it becomes when that is asked for.
package main

import (
	_ "github.com/fenlock/fenlock/cmd/fenlock/internal/ahead" // compiled first
	"github.com/fenlock/fenlock/cmd/fenlock/internal/command"
)

func main() { command.Main(nil) }
