package node

import "time"

// Starter is a Node whose operations can be begun without a goroutine that waits for each of them.
// So operations that come together can be sent together. A Locker then uses Start in place of Do; a
// wrapper that changes one has to change Start too, or not to have it.
type Starter interface {
	Node
	// Start begins an operation of the life of a lock, and returns without waiting for the server.
	// The outcome of any other operation is an error that matches ErrInvalid. The rules for Do
	// hold, except that call.Done takes the outcome. What has not been sent after timeout, or when
	// it is not wanted any more, must not be sent.
	Start(r Request, timeout time.Duration, call Call)
}

// Ordered is a Starter that may promise to carry out requests about one name in the order of the
// calls of Start. That includes requests that have to wait for a connection. What a lost connection
// left behind is the only exception. Then a release needs not wait for the answer to the acquire
// that it undoes.
//
// The promise is about what the store does. Outcomes may come in another order: the
// error of a request that was given up need not wait for the answer to the one before.
// A Locker that has the answer to a release before that to its acquire releases once
// more, which does no harm.
type Ordered interface {
	Starter
	// InOrder reports whether the promise is given. It is asked once.
	InOrder() bool
}

// Call waits for the outcome of an operation that was started. Its methods return
// at once and are safe for concurrent use.
type Call interface {
	// Wanted reports whether the outcome can still be of use.
	Wanted() bool
	// Done takes the outcome. It is called once, from any goroutine, also before
	// Start has returned, and however late: the caller has a timer of its own.
	Done(Answer, error)
}

// Ailing is an engine that connects by itself, and so knows why there is no connection, before the
// time of a request is up.
type Ailing interface {
	// Ails returns why no server of the store can be used at present. It is for people and contains
	// no password. nil: one can be used, or it is not known. It sends nothing and returns at once.
	Ails() error
}

// Finisher is an engine that may have to wait before it can send what was begun. For example, it
// waits for a connection to a server that hangs.
type Finisher interface {
	// Finish is told before Close, while requests are under way and may still be begun.
	// What would have to wait is not sent from now on, and fails with an error that
	// matches context.Canceled; what was sent goes on, and so does what can be sent at
	// once. It returns at once.
	Finish()
}
