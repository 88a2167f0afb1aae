// Package trace ties the code to the models of package proof: it evaluates the actions of a model
// on concrete states.
//
// A simulator, or a search, tells a Group what its nodes and attempts do (steps.go has the table of
// which action each step is). The Group carries out that action on the model's own state. A step
// may be unknown to the model, have a false guard, or leave a node otherwise than in the model.
// Then it is a Refusal, with the steps before it.
//
// It shares no code with what it checks. The actions are read from the models' text, and nothing of
// package core, rule or node is used.
package trace
