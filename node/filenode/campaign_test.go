//go:build campaign

package filenode

// How many files are driven through failures of the power.
const powerLives = 4000

// How many processes are killed.
const killedProcesses = 5000

// After how many calls to the disk a process is killed at the latest: that is more than it makes.
const powerCalls = 24

// How many waiters come to each of some places in the chain.
const chainRounds = 400
