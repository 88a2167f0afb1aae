// Package proof has the models of fenlock's rules. README.md says what they are; make proof checks
// them.
package proof

import "embed"

// Files has the models (*.model), each with its runs and broken rules (*.runs).
//
//go:embed *.model *.runs
var Files embed.FS
