// Package check holds the checkers: each is told what happened, in the order in
// which it happened, and says what breaks a promise. They know nothing of how
// locks are made, and serve the simulator and the histories of real servers alike.
//
// Names and clients are numbers from 0 on, an id is an acquisition's. Times are
// true time, from any zero. A method that returns a violation returns "" when all
// is well. Nothing here is safe for concurrent use.
package check
