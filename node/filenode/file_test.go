//go:build linux || darwin || freebsd

package filenode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// problem checks that an error says what happened, to which file, and what to do.
func problem(t *testing.T, err error, path string, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", says)
	}
	for _, part := range append(says, path) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// A file that is deleted or replaced makes two groups of processes that do not see each other's
// leases. Those that notice it must stop voting.
func TestFileDeletedOrReplaced(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"deleted": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
		},
		"cut off": func(path string) error { return os.Truncate(path, roomsEnd-1) },
	} {
		t.Run(what, func(t *testing.T) {
			n, path := newNode(t)
			r := request("a", "me", 0)
			want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			says := "while it was open"
			if what == "cut off" {
				says = "cut off"
			}
			if a := want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r))); !strings.Contains(a.Detail, says) {
				t.Errorf("the lease is lost, because %q", a.Detail)
			}
			_, release := n.Do(t.Context(), as(node.Release, r))
			_, acquire := n.Do(t.Context(), as(node.Acquire, request("b", "", 0)))
			_, inspect := n.Inspect(t.Context(), "a")
			list := n.List(t.Context(), "", func(node.Lease) bool { return true })
			for _, err := range []error{release, acquire, inspect, list} {
				problem(t, err, path, says)
				if !errors.Is(err, node.ErrMisconfigured) {
					t.Errorf("not misconfigured: %v", err)
				}
			}
			if _, err := os.Stat(path); what == "deleted" && !os.IsNotExist(err) {
				t.Errorf("the file is there again (%v)", err)
			}
		})
	}
}

// The holder of a lock in a file that is deleted learns it with the next extension, not when the
// validity has run out. Others can have the lock at once.
func TestDeletedFileEndsTheLock(t *testing.T) {
	n, path := newNode(t)
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := l.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{lock.Extend(t.Context()), context.Cause(lock.Context())} {
		problem(t, err, path, "it does not have the lease any more", "deleted or moved while it was open")
		if !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("not lost: %v", err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "typo", "x")
	whole := func(change func(b []byte)) []byte {
		h := header{seq: 1, state: settled, epoch: 1, ceiling: 5}
		b := append(make([]byte, page), h.bytes()...)
		change(b[page:])
		return append(b, make([]byte, roomsEnd-len(b))...)
	}
	sum := func(b []byte) { binary.LittleEndian.PutUint32(b[12:], checksum(b)) }
	for what, c := range map[string]struct {
		path    string
		content []byte
		says    []string
	}{
		"something else": {filepath.Join(dir, "notes"), []byte(strings.Repeat("this is a text\n", 1000)),
			[]string{"something else", "choose another path"}},
		"zeros first": {filepath.Join(dir, "image"), append(make([]byte, roomsAt), "an image"...),
			[]string{"something else"}},
		"a byte": {filepath.Join(dir, "byte"), []byte{1}, []string{"something else"}},
		"SQLite": {filepath.Join(dir, "db"), append(sqlite, make([]byte, 4000)...),
			[]string{"SQLite", "end all programs", "choose another path"}},
		"a newer format": {filepath.Join(dir, "newer"), whole(func(b []byte) { b[8] = 2; sum(b) }),
			[]string{"newer fenlock", "upgrade"}},
		"a bad header": {filepath.Join(dir, "bad"), whole(func(b []byte) { b[30]++ }), []string{"damaged", "delete it"}},
		"no token": {filepath.Join(dir, "token"), whole(func(b []byte) { b[16+8*4+7]++; sum(b) }),
			[]string{"no token"}},
		"half a header": {filepath.Join(dir, "half"), magic, []string{"damaged"}},
		"a folder":      {dir, nil, []string{"is a directory"}},
		"no folder":     {missing, nil, []string{"the folder " + filepath.Dir(missing) + " does not exist"}},
		"a device":      {"/dev/null", nil, []string{"not a regular file"}},
		"below a file":  {filepath.Join(dir, "byte", "x"), nil, []string{"not a directory"}},
	} {
		if c.content != nil {
			if err := os.WriteFile(c.path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
		} else if what == "below a file" {
			os.WriteFile(filepath.Dir(c.path), []byte{1}, 0o600)
		}
		n, err := OpenFile(c.path)
		if err == nil {
			n.Close()
			t.Errorf("%s was opened", what)
			continue
		}
		problem(t, err, c.path, c.says...)
		if c.content == nil {
			continue
		}
		if !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%s: not misconfigured: %v", what, err)
		}
		if now, err := os.ReadFile(c.path); err != nil || !bytes.Equal(now, c.content) {
			t.Errorf("%s: the file was changed (%v)", what, err)
		}
	}
	// A mistake in a path must not make folders, and a lock that excludes no client.
	if _, err := os.Stat(filepath.Dir(missing)); !os.IsNotExist(err) {
		t.Errorf("the folder was made (%v)", err)
	}
	if os.Geteuid() != 0 { // whom nothing is denied
		path := filepath.Join(dir, "denied")
		if err := os.WriteFile(path, nil, 0); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFile(path)
		problem(t, err, path, "this user must be allowed")
	}
}

// A process that is killed before the header is written, or a power failure, leaves a file without
// one, or with a part of it. That is a new file, as rooms are made when there is a header.
func TestFirstOpenCutOff(t *testing.T) {
	part := (&header{seq: 1, state: begun, epoch: 1}).bytes()[:cut]
	second := append(make([]byte, page), part...)
	for size, content := range map[int64][]byte{0: nil, 100: nil, roomsAt: nil, cut: part, roomsAt - 1: second} {
		path := filepath.Join(t.TempDir(), "locks")
		if err := errors.Join(os.WriteFile(path, content, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		want(t, node.Granted)(open(t, path).Do(t.Context(), as(node.Acquire, request("a", "", 7))))
	}
}

// A boot ends all holders, and no register decreases, although none of them was on the disk.
func TestAnotherBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	before, err := inBoot(t, path, "before", func() time.Duration { return 1000 * time.Hour })
	if err != nil {
		t.Fatal(err)
	}
	old := request("a", "old", 7)
	want(t, node.Granted)(before.Do(t.Context(), as(node.Acquire, old)))
	want(t, node.Held)(before.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 1))))

	// While it is in use, no other boot is believed.
	now := func() time.Duration { return time.Minute }
	_, err = inBoot(t, path, "after", now)
	if problem(t, err, path, "another boot"); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("not misconfigured: %v", err)
	}
	want(t, node.Granted)(before.Do(t.Context(), as(node.Extend, old)))
	before.Close()

	after, err := inBoot(t, path, "after", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := after.List(t.Context(), "",
		func(l node.Lease) bool { t.Errorf("listed: %+v", l); return true }); err != nil {
		t.Error(err)
	}
	want(t, node.Lost)(after.Do(t.Context(), as(node.Confirm, old)))
	for _, name := range []string{"a", "b"} {
		a := want(t, node.Granted)(after.Do(t.Context(), as(node.Acquire, request(name, "new", 0))))
		if a.Register != 7+window+1 || a.Ahead != 0 {
			t.Errorf("%s: %+v; the ceiling was %d", name, a, 7+window)
		}
	}
}

// The disk is waited for once in a window, and not for each token.
func TestHeaderIsSeldomWritten(t *testing.T) {
	n, _ := newNode(t)
	for i := range 20 {
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(fmt.Sprint(i), "", fence.Token(i)*window/4))))
	}
	h, err := readHeader(n)
	if err != nil || h.seq > 2*8 {
		t.Errorf("the header was written %d times in 5 windows (%v)", h.seq, err)
	}
}

// A copy has none of the leases, and its registers go on above the ceiling, which is above those of
// the file.
func TestCopyBeginsAnew(t *testing.T) {
	n, path := newNode(t)
	r := request("a", "me", 7)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	content, err := os.ReadFile(path)
	if err := errors.Join(err, os.WriteFile(path+".copy", content, 0o600)); err != nil {
		t.Fatal(err)
	}
	a := want(t, node.Granted)(open(t, path+".copy").Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	if a.Register <= 7+window {
		t.Errorf("granted %d in the copy", a.Register)
	}
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	// The copy takes the place of the file, and gets the inode of it where the file system gives
	// that again.
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("b", "me", 9))))
	n.Close()
	if err := errors.Join(os.Remove(path), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	after := open(t, path)
	if a := want(t, node.Granted)(after.Do(t.Context(), as(node.Acquire, request("a", "", 0)))); a.Register <= 7+window {
		t.Errorf("granted %d in the copy that took its place (inode %d after %d)", a.Register, after.place.inode,
			n.place.inode)
	}
}

// By whatever name it is opened, it is one file.
func TestSecondName(t *testing.T) {
	n, path := newNode(t)
	r := request("a", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	second := open(t, other)
	want(t, node.Held)(second.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	if n.Location() != second.Location() {
		t.Errorf("%v and %v", n.Location(), second.Location())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r)))
	want(t, node.Granted)(second.Do(t.Context(), as(node.Extend, r)))
}

// A number above the ceiling is not in a room before the ceiling is in the header.
func TestCeilingIsOnTheDiskFirst(t *testing.T) {
	n, path := newNode(t)
	all := names(2) // of one room
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(all[0], "", 7))))
	before, bad := make([]byte, roomsAt), append(bytes.Clone(magic), make([]byte, roomsAt-len(magic))...)
	_, err := n.ReadAt(before, 0)
	if _, failed := n.WriteAt(bad, 0); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	_, err = n.Do(t.Context(), as(node.Acquire, request(all[1], "", 8+window)))
	problem(t, err, path, "its header cannot be read")
	if _, err := n.WriteAt(before, 0); err != nil {
		t.Fatal(err)
	}
	if l, err := n.Inspect(t.Context(), all[1]); err != nil || l.Leased || l.Register > 7+window {
		t.Errorf("%+v, %v", l, err)
	}
}
