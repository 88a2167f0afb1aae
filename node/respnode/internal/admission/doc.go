// Package admission answers whether a server may vote. Package admit decides; here is what a server
// says of itself for it (store.go), and which answers count of those that it gives (voting.go).
// node/admit/README.md has the argument.
//
// A sender of requests asks a Voting for the Server, and a Proof of that for each answer.
package admission
