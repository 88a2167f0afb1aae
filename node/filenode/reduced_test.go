//go:build !campaign

package filenode

// powerLives is documented in campaign_test.go.
const powerLives = 60

// killedProcesses is documented in campaign_test.go.
const killedProcesses = 100
