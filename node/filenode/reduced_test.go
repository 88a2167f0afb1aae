//go:build !campaign

package filenode

// powerLives is documented in campaign_test.go.
const powerLives = 60

// killedProcesses is documented in campaign_test.go.
const killedProcesses = 100

// powerCalls is documented in campaign_test.go. Here it is opening, and a raise.
const powerCalls = 12

const chainRounds = 40
