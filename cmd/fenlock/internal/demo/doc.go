//go:build linux || darwin || freebsd

// Package demo plays the three scenes that arguments about distributed locks come back to. It
// starts, kills, stops and removes the servers and processes of a scene itself.
//
// A scene is a function that does something, reports it as Events, and checks what it claims: if
// a claim does not hold, Play fails.
//
// The files, each of which uses those after it only:
//
//	play.go     the scenes, and Play
//	paused.go, restart.go, outage.go: one scene each
//	account.go  the resource of paused
//	client.go   a client process of paused, as the scene sees it; worker.go from within
//	redlock.go  the plain Redlock of restart
//	group.go    the servers of a scene, and Lockers for them
//	server.go   one server, and the installed program
//	stage.go    what all scenes have: the clock, the reader's pace, claims, the end
//	process.go  processes that do not outlive the demo
//	terminal.go events, and how a terminal shows them
package demo
