//go:build linux || darwin || freebsd

package command

// The variables of the environment that are no flag's. All begin alike.
const (
	variablePrefix = "FENLOCK_"

	// Which nodes: their URLs, separated by commas, or the file with them.
	nodesVariable     = "FENLOCK_NODES"
	nodesFileVariable = "FENLOCK_NODES_FILE"
	// localOnly, in place of nodes, is a lock of this machine only, which is meant: --local.
	localOnly = "local"

	// What a command learns from the fenlock that runs it.
	nameVariable  = "FENLOCK_NAME"
	tokenVariable = "FENLOCK_TOKEN"
	slotVariable  = "FENLOCK_SLOT"
	// The locks that the fenlocks around a command hold: of each an identity, a process
	// id, and when that process was born. A command that waits for one of them waits for
	// itself.
	heldVariable = "FENLOCK_HELD"
)
