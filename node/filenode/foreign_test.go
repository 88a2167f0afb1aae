//go:build linux || darwin || freebsd

package filenode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// A file that was begun anew under an open node, which only processes do that share no locks with it, ends the locks of
// that node, and grants none.
func TestBegunAnewWhileOpen(t *testing.T) {
	n, path := newNode(t)
	r := request("a", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	h, err := readHeader(n)
	if err := errors.Join(err, h.begin(n, n.place, [64]byte{1})); err != nil {
		t.Fatal(err)
	}
	want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r)))
	for _, name := range []string{"a", "b"} {
		_, err := n.Do(t.Context(), as(node.Acquire, request(name, "", 0)))
		problem(t, err, path, "begun anew while it was open")
	}
	// The others write in the room.
	other := &room{number: roomOf("a"), which: 1}
	if err := other.decode(0); err != nil {
		t.Fatal(err)
	}
	other.Leases["a"] = rule.Lease{Holder: "h", Expires: n.clock() + time.Hour}
	if err := other.write(n, &h, n.clock()); err != nil {
		t.Fatal(err)
	}
	want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r)))
}

// A folder of this user's that somebody has put in the place of the pipes keeps its permissions.
func TestForeignFolderIsNotOpened(t *testing.T) {
	n, path := newNode(t)
	folder := path + "-waiters"
	if err := errors.Join(os.Chmod(path, 0o666), os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "secret"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	err := n.Listen(t.Context(), clientA, func(string) {})
	problem(t, err, path, "listen")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
