package core

import "github.com/fenlock/fenlock/fence"

// ForceNext returns whom an operator's forced release has still to ask, and with which floor.
// Answers are the numbers that the nodes have answered last, 0 for a node that has not. It is done,
// and To is empty, when a quorum has answered the same number. The previous holder cannot extend
// the lock any more, and all tokens from then on are larger.
//
// One pass is not enough. A node that was asked first answers less than the others, and a holder
// may raise its mark to a number in between. A larger floor does as well, for nodes that have
// answered too: what counts is that a quorum's last answers are the same.
func ForceNext(answers []fence.Token) (to Set, floor fence.Token) {
	same := 0
	for _, answer := range answers {
		switch {
		case answer > floor:
			floor, same = answer, 1
		case answer == floor:
			same++
		}
	}
	if floor > 0 && same >= Quorum(len(answers)) {
		return 0, floor
	}
	for node, answer := range answers {
		if answer < floor || floor == 0 {
			to = to.With(node)
		}
	}
	return to, floor
}
