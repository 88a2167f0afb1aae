//go:build campaign

package filenode

// How many files are driven through failures of the power.
const powerLives = 4000

// How many processes are killed.
const killedProcesses = 5000
