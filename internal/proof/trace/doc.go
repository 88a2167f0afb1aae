// Package trace ties the code to the models of package proof: it evaluates the actions of a model on concrete states.
//
// A simulator, or a search, tells a Group what its nodes and attempts do (steps.go has the table of which action each
// step is). The Group carries out that action on the model's own state. A step that the model does not know, whose
// guard is false, or that leaves a node otherwise than in the model is a Refusal, with the steps before it.
//
// It shares no code with what it checks: the actions are read from the models' text, and nothing of package core,
// rule or node is used.
package trace
