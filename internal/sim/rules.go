package sim

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
)

// rules are where a test puts something broken in the place of the code that ships, to see that a
// checker notices. The answers of internal/core to the shell are in watch.go. What a client's
// environment, network and admissions do is in admission.go, and what a node does in node.go.
type rules struct {
	lockRules
	processRules
	nodeRules
	force    func(answers []fence.Token) (core.Set, fence.Token) // of an operator
	guardOff bool
}

// shipped are the rules as they are.
func shipped() rules {
	return rules{
		lockRules: lockRules{
			params:   func(*core.Params) {},
			attempt:  func(_ *lock, honest shell.Attempt, _ core.Params) shell.Attempt { return honest },
			adoption: func(_ *lock, honest shell.Attempt, _ core.Params) shell.Attempt { return honest },
			retry:    func(honest shell.Retry) shell.Retry { return honest },
			nodeTime: func(honest shell.NodeTime) shell.NodeTime { return honest },
			timeout:  func(_ *process, _ core.Op, d time.Duration) time.Duration { return d },
		},
		processRules: processRules{
			identity: func(_ *process, n int) int { return n },
			timers:   func(*process, time.Duration) bool { return true },
			request:  (*process).request,
			facts:    func(_ *try, f admit.Facts) admit.Facts { return f },
			others:   func(_ *try, answers []*node.Registers) []*node.Registers { return answers },
			raise:    (*try).raise,
		},
		nodeRules: nodeRules{
			serve:      rule.ServeShared,
			notifyLost: func() bool { return false },
			note:       (*server).note,
			mark:       (*server).setMark,
			believes:   believes,
			complete:   complete,
			counts:     func(n *server, identity int) bool { return n.identity == identity },
		},
		force: core.ForceNext,
	}
}
