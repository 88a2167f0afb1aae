package filenode

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// Without a descriptor nothing can be told, which says nothing about the waiters: those that are not the next stay in
// the queue.
func TestNoDescriptorsLeft(t *testing.T) {
	n, _ := newNode(t)
	listen(t, n, clientA)
	held := request("a", "", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	for i := range 3 {
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", fmt.Sprint(clientA, ":", i+1), int64(i+1)))))
	}
	var before syscall.Rlimit
	free, err := syscall.Dup(0)
	if err := errors.Join(err, syscall.Close(free), syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = uint64(free)
	err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none)
	answer, failed := n.Do(t.Context(), as(node.Release, held))
	if err := errors.Join(err, failed, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)); err != nil || answer.Status != node.Granted {
		t.Fatalf("%v, %v", answer.Status, err)
	}
	if left := inFile(t, n, "a").Queues["a"].Waiters; len(left) != 2 {
		t.Errorf("%v are left in the queue", left)
	}
}
