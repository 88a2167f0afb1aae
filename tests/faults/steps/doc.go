// Package steps ties what real servers do to the model that is proved. It listens to each server
// (MONITOR), and follows what that has. Each script that the server carries out must be steps of
// proof/tokens.model, or of proof/shared.model where holders share names, with their guards and
// their effects. It shares no code with the scripts, or with the clients: what a script did is what
// it has called.
//
// What a client decides is seen by its token only: a majority has promised it to one holder. Of its
// extensions it is checked what the servers did, and not how it has counted; the simulator's steps
// have that. What a script answers is not seen, but what it has left is. The number that it
// promises is that of the lease, or of the register.
//
// A lease that is gone before its time by the server's own clock is a free move of the model. So is
// the time that a quarantine takes.
package steps
