// Package model is the language in which the rules of fenlock are written down for a proof. It has
// sorts, relations, actions with a guard and effects, and invariants. It parses a model, checks
// every sort and name, checks that the questions about it are decidable, and writes them for an SMT
// solver.
//
// It shares no code with what it describes. A model says, in forms with parentheses:
//
//	(sort node n m w)              a sort, and the letters that its variables begin with
//	(order le number zero)         a total order of a sort, and its least element
//	(family quorum in node q)      a sort of sets of nodes and its membership. In an instance of few nodes: all
//	                               sets of q = N/2+1, of q-1 or of n-q+1 nodes. Otherwise the axioms say all that is known
//	(fixed in node quorum)         a relation that never changes; (fixed-fun owner round holder) a function
//	(rel leased node holder)       a relation of the state; (fun token holder number) a function
//	(cut register reached passed node number)
//	                               a number for each node as two relations, for the decidable fragment:
//	                               (reached n r) is r <= register, (passed n r) is r < register
//	(axiom NAME F) (init F...) (define (name x...) F)
//	(promise NAME F) (lemma NAME F)  invariants: what users rely on, and why it holds
//	(action NAME (x...) (if F...) EFFECT...)
//
// A conjunct of a guard that no proof needs is written (also "why it stays" F): see prove -audit.
//
// A free variable of an axiom, of init and of an invariant stands for every value. Formulas are
// built of and, or, not, =>, =, ite, forall, exists, true and false. All effects of an action are
// one step. They read the state before it:
//
//	(add (rel x *y) F)  (del (rel x *) F)   for every y, where F holds; F may be left out
//	(let (fun x) t)     (let (rel x) F)     one value
//	(put (cut x) t)     (raise (cut x) t)   the number is t; is t if that is larger
//	(copy (cut x) (cut y))  (join (cut x) (cut y))  the same with what another cut has
package model
