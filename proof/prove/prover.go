package main

import (
	"context"
	"io"

	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/internal/proof/solver"
)

// prover is what all parts of one call have.
type prover struct {
	ctx     context.Context
	out     io.Writer
	solver  *solver.Solver
	limits  solver.Limits
	workers int
	verbose bool
	failed  bool
}

// file is a model with its runs.
type file struct {
	name string
	*model.Model
	runs []*model.Run
}
