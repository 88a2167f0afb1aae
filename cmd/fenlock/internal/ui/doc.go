// Package ui serves one page that shows a quorum group live: nodes, locks with votes and
// waiters, and a trail of what has changed.
//
// It is a viewer. One poller looks at the group, however many browsers show the page: as long
// as one does or, to keep a history, always. What it sees is a picture. The differences between
// a picture and the next one are told in the trail. Each open page is sent the parts that have
// changed, as HTML from the same templates as the page itself. A browser without the script
// shows the same, only not live.
//
// From the bottom up:
//
//	text.go       names, times and reasons as a person reads them
//	group.go      where pictures come from, as a rule from real nodes; probe.go: one of them
//	lock.go       a lock and its holders; entries.go: the slots of a name together, and the order of the rows
//	history.go    how long a node does as it does, and what was seen for an hour; chart.go draws it
//	picture.go    what was seen at one moment; changes.go: what has happened since
//	trail.go      the last changes
//	poller.go     looks
//	part.go       a piece of a page that changes by itself
//	rows.go, status.go   lines of it; overview.go, lockpage.go: the two pages; query.go: which locks
//	render.go     the templates
//	update.go     what an open page has to be sent; stream.go sends it
//	breaking.go   breaks a lock, after it was confirmed
//	guard.go      what every request has to pass; signin.go: the token
//	listen.go     the address
//	server.go     all together
package ui
