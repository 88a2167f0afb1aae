// Overload measures what becomes of locks while servers stand still, have too little of a
// processor, or are asked for more than they can do. It does so on real servers, for fenlock and
// for other libraries in turn, and prints a table. "make overload" runs it.
//
// It fails if fenlock loses a held lock, or lets two clients hold a name. What depends on the
// machine's speed is printed only.
//
// All clients are processes of their own (worker.go). They hold locks, ask for more than the
// servers can do, or are a herd (herd.go). scenes.go has what happens to them.
package main
