//go:build linux || darwin || freebsd

// Package demo plays scenes that people argue about when they argue about distributed
// locks: with real servers and real processes, which it starts, kills, stops and
// removes itself.
//
// A scene is a function that does something and says what happened. What it says is a
// stream of Events; who shows them (Terminal, or a page) knows nothing of scenes. A
// scene also checks what it claims: if it went otherwise, it says so, and Play fails.
//
// The files, each of which uses those after it only:
//
//	play.go       which scenes there are, and how they are played
//	contention.go, outage.go, paused.go, restart.go, jump.go, rolling.go: the scenes
//	redlock.go    the plain Redlock that one of them is about
//	account.go    the resource that another one is about
//	group.go      the servers of a scene, and its clients
//	client.go     client processes, as a scene sees them
//	worker.go     a client process, from within
//	message.go    what the two say to each other
//	server.go     one server
//	stage.go      what all scenes have: the clock, the reader's pace, what is required, the end
//	process.go    processes that do not outlive the demo
//	binary.go     which server is installed
//	terminal.go   events as lines of a terminal
//	event.go      an event
package demo
