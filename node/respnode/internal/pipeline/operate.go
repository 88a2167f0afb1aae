// Package pipeline sends requests to a server, many in one write (pipeline.go). It uses a slow path
// where the server has to be connected to, looked at or admitted first (slowpath.go).
package pipeline

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Sender sends one request at a time to a server that may vote.
type Sender struct {
	Link   resp.Link
	Voting *admission.Voting
	Keys   *command.Keys
	Errors command.Errors
}

// Do carries out an operation. The server is looked at and admitted first, if need be.
func (s *Sender) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	err := s.Keys.Check(&r)
	var answer node.Answer
	if err == nil {
		answer, err = s.operate(ctx, &r, func() bool { return true })
	}
	return answer, s.Errors.Fail(err)
}

// operate carries out an operation that was checked, and sends nothing once it is
// not wanted.
func (s *Sender) operate(ctx context.Context, r *node.Request, wanted func() bool) (node.Answer, error) {
	admitted, redirected := false, false
	for {
		server, err := s.Voting.Look(ctx)
		if err == nil && !wanted() {
			err = context.DeadlineExceeded
		}
		if err != nil {
			return node.Answer{}, node.NotSent(err)
		}
		if !server.Founded() && r.Op != node.Release && !admitted {
			out, err := s.Voting.Admit(ctx)
			if server.Again(); err != nil || out.Cause != node.Present {
				return node.Answer{Status: node.Rejoining, Absence: out}, node.NotSent(err)
			}
			admitted = true
			continue
		}
		promises := 0
		if r.Op != node.Release {
			if server, err = s.Voting.Witnessed(ctx, server); err != nil {
				return node.Answer{}, node.NotSent(err)
			}
			promises = 1
		}
		proof := server.Prove(promises)
		reply, err := s.ask(ctx, s.Keys.Operation(nil, r, proof.Mark, new(command.Last)), &proof)
		answer, notAdmitted, err := command.Parse(r, reply, err)
		standing, err := proof.Judge(r.Op, answer, notAdmitted, err)
		switch {
		case standing == admission.Redirected && redirected:
			return node.Answer{}, node.NotSent(s.Errors.Describe(err))
		case standing == admission.Redirected:
			// Not executed either, so that it can go to the member that has the slot.
			redirected, admitted = true, false
			continue
		case err != nil:
			return node.Answer{}, err
		case standing == admission.Elsewhere:
			return s.after(ctx, answer)
		case standing == admission.Counts:
			return answer, nil
		}
		// Not executed, so sending it once more is the first time.
		out, err := s.Voting.Admit(ctx)
		if err != nil {
			return node.Answer{}, node.NotSent(err)
		}
		if out.Cause == node.Present && admitted {
			out.Cause = node.Changed
		}
		if out.Cause != node.Present {
			return node.Answer{Status: node.Rejoining, Absence: out}, nil
		}
		server.Again() // it has a new mark
		admitted = true
	}
}

// ask sends a request, and what its proof needs behind it.
func (s *Sender) ask(ctx context.Context, request resp.Command, proof *admission.Proof) (resp.Reply, error) {
	if proof.Mark == "" {
		return s.Link.Do(ctx, request)
	}
	most := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		most = time.Until(deadline)
	}
	replies, err := s.Link.DoMulti(ctx, proof.Append([]resp.Command{request}, most)...)
	if err != nil {
		return resp.Reply{}, err
	}
	proof.Read(replies)
	return replies[0], nil
}

// after returns an answer that counts if the server can be a node.
func (s *Sender) after(ctx context.Context, answer node.Answer) (node.Answer, error) {
	if _, err := s.Voting.Look(ctx); err != nil {
		return node.Answer{}, err
	}
	return answer, nil
}
