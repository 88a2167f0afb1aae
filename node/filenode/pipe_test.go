//go:build linux || darwin || freebsd

package filenode

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock/node"
)

// Two nodes on one file may know it by two names, one of them a link. They must look for the pipes
// in one place.
func TestCallsFollowLinks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "data", "real")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	direct := open(t, file)
	links := map[string]string{filepath.Join(dir, "link"): "data/real", filepath.Join(dir, "folder"): "data"}
	for link, target := range links {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	heard := listen(t, direct, clientA)
	for _, path := range []string{filepath.Join(dir, "link"), filepath.Join(dir, "folder", "real")} {
		linked := open(t, path)
		if linked.String() != path {
			t.Errorf("the node is called %q; want what was given, %q", linked, path)
		}
		far := listen(t, linked, clientB)
		for _, c := range []struct {
			waits, releases *Node
			heard           notified
			waiter          string
		}{{direct, linked, heard, clientA + ":1"}, {linked, direct, far, clientB + ":1"}} {
			handOver(t, c.waits, c.releases, path, c.waiter)
			c.heard.hears(t, c.waiter)
			want(t, node.Lost)(c.waits.Do(t.Context(), as(node.Release, asks(path, c.waiter, 0))))
		}
		if names := inFolder(t, file); len(names) != 2 {
			t.Errorf("the folder has %q; want two pipes", names)
		}
		if err := linked.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "link-waiters")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is a folder beside the link (%v)", err)
		}
	}
}

// The link leads to another file. Processes that come now see none of our leases.
func TestLinkMoved(t *testing.T) {
	dir := t.TempDir()
	file, other, link := filepath.Join(dir, "real"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
	open(t, file)
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	n, r := open(t, link), request("a", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	if err := errors.Join(os.WriteFile(other, nil, 0o600), os.Remove(link), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	want(t, node.Lost)(n.Do(t.Context(), as(node.Extend, r)))
	_, err := n.Do(t.Context(), as(node.Acquire, request("b", "me", 0)))
	problem(t, err, link, "while it was open")
}

// Others may write to the folder. What they put in the place of a pipe, before it
// was opened, keeps its permissions and does not become the pipe.
func TestPlantedDraftIsNotAdopted(t *testing.T) {
	plants := map[string]func(victim, draft string) error{
		"link to a file": func(victim, draft string) error {
			return errors.Join(os.WriteFile(victim, []byte("secret"), 0o600), os.Link(victim, draft))
		},
		"link to a pipe": func(victim, draft string) error {
			return errors.Join(syscall.Mkfifo(victim, 0o600), os.Link(victim, draft))
		},
		"file": func(victim, draft string) error {
			return errors.Join(os.WriteFile(draft, nil, 0o600), os.Symlink(draft, victim))
		},
	}
	if os.Geteuid() == 0 { // no other user can open what others own
		plants["pipe of another"] = func(victim, draft string) error {
			return errors.Join(syscall.Mkfifo(draft, 0o600), os.Chown(draft, 65534, 65534), os.Symlink(draft, victim))
		}
	}
	for what, plant := range plants {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			file, victim := filepath.Join(dir, "locks"), filepath.Join(dir, "victim")
			draft, pipe := filepath.Join(dir, draftPrefix+"x"), filepath.Join(dir, clientA)
			err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o666), plant(victim, draft))
			if err != nil {
				t.Fatal(err)
			}
			like, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(victim)
			if err != nil {
				t.Fatal(err)
			}
			opened, err := publish(draft, pipe, like)
			if err == nil {
				opened.Close()
			}
			if !errors.Is(err, errForeign) {
				t.Errorf("got %v", err)
			}
			after, err := os.Stat(victim)
			if err != nil {
				t.Fatal(err)
			}
			if was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t); was.Mode != is.Mode ||
				was.Uid != is.Uid || was.Gid != is.Gid {
				t.Errorf("it was %v of %d, and is %v of %d", before.Mode(), was.Uid, after.Mode(), is.Uid)
			}
			if _, err := os.Lstat(pipe); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it has the pipe's name (%v)", err)
			}
		})
	}
}

// A disk that hangs while a goroutine looks for the pipe holds neither the waiter that was just
// refused nor those after it.
func TestHangingFolderDoesNotHoldTheWaiter(t *testing.T) {
	n, _ := newNode(t)
	listen(t, n, clientA)
	hang, looking := make(chan struct{}), make(chan struct{}, 100)
	defer close(hang)
	l := n.listeners[clientA]
	l.mu.Lock()
	l.lstat = func(path string) (os.FileInfo, error) {
		looking <- struct{}{}
		<-hang
		return os.Lstat(path)
	}
	l.mu.Unlock()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answers := make(chan error)
	go func() {
		for range 5 {
			a, err := n.Do(ctx, as(node.Acquire, asks("a", clientA+":1", 1)))
			if err == nil && a.Status != node.Held {
				err = errors.New(a.Status.String())
			}
			answers <- err
		}
	}()
	for range 5 {
		select {
		case err := <-answers:
			if err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatal("the waiter is held")
		}
	}
	select {
	case <-looking:
	case <-ctx.Done():
		t.Fatal("nobody looks for the pipe")
	}
}
