//go:build linux

// Faults lets client processes use locks on five real servers while faults strike
// them, two kinds at a time, by a schedule that a seed decides. What happened is
// written down and checked (package history). "make faults" runs a campaign.
//
// The packages, each of which imports only those after it:
//
//	faults     the flags, the campaign of many histories, its report, the comparison
//	runner     one history
//	worker     the client processes
//	plan       which faults strike when
//	kinds      the table of kinds of faults
//	cluster    the servers
//	wallclock  a server's clock; the network before it is testserver/proxy
//	library, resource   lock libraries, and what the locks protect
//	draw       random durations
package main
