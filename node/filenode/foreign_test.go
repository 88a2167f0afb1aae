//go:build linux || darwin || freebsd

package filenode

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// A file that was begun anew under an open node ends the locks of that node, and grants none. Only
// processes that share no locks with it do so.
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
	if a := want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r))); !strings.Contains(a.Detail, "of another time") {
		t.Errorf("the lease is lost, because %q", a.Detail)
	}
	_, err = n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
	problem(t, err, path, "of another time")
}

// While others begin it anew, before they empty the rooms: the header is theirs.
func TestBegunAnewWhileItIsRaised(t *testing.T) {
	n, path := newNode(t)
	all := names(2) // of one room
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(all[0], "", 7))))
	h, err := readHeader(n)
	h.epoch++
	if err := errors.Join(err, h.put(n, begun)); err != nil {
		t.Fatal(err)
	}
	_, err = n.Do(t.Context(), as(node.Acquire, request(all[1], "", 8+window)))
	problem(t, err, path, "begun anew while it was open")
	if now, err := readHeader(n); err != nil || now != h {
		t.Errorf("%+v, %v; it was %+v", now, err, h)
	}
}

// A folder of this user's that was put in the place of the pipes keeps its permissions.
func TestForeignFolderIsNotOpened(t *testing.T) {
	n, path := newNode(t)
	folder := path + "-waiters"
	if err := errors.Join(os.Chmod(path, 0o666), os.Mkdir(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "secret"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	err := n.Listen(t.Context(), clientA, func(string) {})
	problem(t, err, path, "listen")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A folder of another user's stays as it is, and is used if it can be.
func TestFolderOfAnotherUser(t *testing.T) {
	n, path := newNode(t)
	folder := "/" // which is root's
	if os.Geteuid() == 0 {
		folder = path + "-waiters"
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o755), os.Chown(folder, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		listen(t, n, clientA)
	}
	before, err := os.Stat(folder)
	like, err2 := os.Stat(path)
	if err := errors.Join(err, err2, makeFolder(folder, like)); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(folder); err != nil || after.Mode() != before.Mode() {
		t.Errorf("%v, %v; it was %v", after.Mode(), err, before.Mode())
	}
}
