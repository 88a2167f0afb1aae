// Package admit decides whether a store may vote. It is the one home of that decision. A store that
// forgot its leases would grant what others hold. A store that forgot its registers would promise
// numbers that were used.
//
// Decide is the decision, a pure function. Try is one try at an admission, step by step and without
// I/O, so that the simulator runs the same code. Admission drives tries for an engine: one at a
// time, in the background, with a pause between them. An engine gives it a Store: five short
// methods.
//
// # The rule
//
// A store votes only while its mark of admission is of what the store is now. The mark is compared
// inside each atomic step that promises something (acquire, confirm, extend, force release).
//
//  1. A store that is out gets its mark removed before anything else, in one step with the note
//     since when it is out. While the mark is there, a client that takes the store for what it was
//     can still make leases, with the registers of that time.
//  2. From then on it stays out for the quarantine: the longest lease of the group (MaxTTL) and the
//     drift of clocks. After that every lease that was forgotten, or made on the way, has ended.
//  3. Only then the registers of the others are read, and are enough as package rebuild says. To
//     conclude that a majority has none, they are read twice (Try.Asked).
//  4. The registers are raised first, then the mark is set, in one step that fails if the store has
//     changed since it was looked at. The group's terms are recorded in the same step.
//
// Two things take the place of the quarantine. A store that proves that it has lost nothing is
// marked again at once (Facts.Kept). And Group.New is believed if nothing contradicts it. All other
// nodes answer then, and each has nothing recorded, or was admitted as new together with this one.
//
// README.md beside this file has the argument, and the table of what each engine's identity tells.
package admit
