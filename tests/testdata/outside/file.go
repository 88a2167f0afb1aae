package filenode

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/node/rule"
)

// transact runs f on what is in the file, and replaces the file if f has changed that. A process
// that dies leaves the old file or the new file. After an error it is not known which.
func (n *Node) transact(ctx context.Context, f func(s *rule.Store) (changed bool)) error {
	lock, err := n.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close() // gives it back
	text, err := os.ReadFile(n.path)
	var s rule.Store
	switch {
	case errors.Is(err, fs.ErrNotExist): // never used
	case err != nil:
		return err
	default:
		if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&s); err != nil {
			return err
		}
	}
	if !f(&s) {
		return nil
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(&s); err != nil {
		return err
	}
	return n.replace(b.Bytes())
}

// replace writes beside the file first.
func (n *Node) replace(text []byte) error {
	beside := n.path + ".new"
	f, err := os.Create(beside)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if n.sync {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(beside, n.path)
}

// lock returns a file that is locked: by one transaction at a time, of all processes. It
// is another one than the node's, which is replaced.
func (n *Node) lock(ctx context.Context) (*os.File, error) {
	if n.closed.Load() {
		return nil, errClosed
	}
	f, err := os.OpenFile(n.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := ctx.Err()
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			f.Close()
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}
