package sim

import (
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// rules are where a test puts something broken in the place of the code that ships, to see that a
// checker notices. That is the answers of internal/core to the shell (lockRules in watch.go), what a
// client's environment, network and admissions do (processRules in admission.go), and what a node
// does (nodeRules in node.go).
type rules struct {
	nodeRules
	processRules
	lockRules
	force    func(answers []fence.Token) (core.Set, fence.Token) // of an operator
	guardOff bool
}

// shipped are the rules as they are.
func shipped() rules {
	return rules{nodeRules: shippedNodes(), processRules: shippedProcesses(), lockRules: shippedLocks(),
		force: core.ForceNext}
}
