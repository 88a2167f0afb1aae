package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fenlock/fenlock/node/engine"
)

// SQLite keeps its log and its locks in files beside the database file, by their names.
// So there is one file for all who share it only as long as it has one name and one
// place, and all of these files stay what they are. Who comes by another name, or finds
// another file, sees none of the leases: there could be two holders.

// file is what was opened.
type file struct {
	path string      // absolute
	real string      // without links: what SQLite opens, and keeps its files beside
	info os.FileInfo // of real, as it was opened

	// The file of locks that the one connection uses, as it found it. Whoever has the
	// connection has these.
	conn  any
	locks os.FileInfo
}

// gone is the error of a file that is not the one any more that others find: it has
// none of their leases, and they have none of its.
type gone struct{ error }

func (g gone) Unwrap() error { return g.error }

// open creates the file if it is missing, and looks at it.
func (f *file) open() (err error) {
	if err = create(f.path); err != nil {
		return err
	}
	if f.real, err = resolve(f.path); err != nil {
		return err
	}
	if f.info, err = os.Stat(f.real); err != nil {
		return err
	}
	switch {
	case !f.info.Mode().IsRegular():
		return errors.New("not a regular file")
	case isMountPoint(f.real):
		return engine.Misconfiguredf("the file is mounted by itself, so that SQLite's -wal and -shm files beside it are not those that others have; mount its folder instead")
	}
	return f.oneName(f.info)
}

// create makes the file if it is missing. It must not open one that is there. A
// folder is not made: its name may be a mistake, and locks there would exclude nobody.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist; make it, or correct the path: %w", filepath.Dir(path), err)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// oneName refuses a file with several names: each has a log and locks of its own.
func (f *file) oneName(info os.FileInfo) error {
	if n := links(info); n > 1 {
		return engine.Misconfiguredf("the file has %d names (hard links), and whoever opens it by another one does not see the locks; end all programs that use it, and remove the other names (find -samefile shows them)", n)
	}
	return nil
}

// unchanged returns an error if the file at the path is not the one that was
// opened. Those who open the path now get another file, and their leases are
// not in ours. The same if a link leads to the file at a new place: SQLite looks for
// the log, and locks, beside it.
func (f *file) unchanged() error {
	var now os.FileInfo
	for _, path := range slices.Compact([]string{f.path, f.real}) {
		var err error
		now, err = os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return gone{engine.Misconfiguredf("the file was deleted or moved while it was open; end all programs that use it before you change it")}
		case err != nil:
			return err
		case !os.SameFile(f.info, now):
			return gone{engine.Misconfiguredf("the file was replaced by another while it was open; end all programs that use it before you change it")}
		}
	}
	return f.oneName(now)
}

// sameLocks returns an error if the file of SQLite's locks and of the index of its log
// is not the one any more that the connection has open. Without the log alone nobody
// else can open the database.
func (f *file) sameLocks(ctx context.Context, conn *sql.Conn) error {
	now, err := os.Stat(f.real + "-shm")
	if err == nil {
		err = conn.Raw(func(driver any) error {
			if driver != f.conn {
				f.conn, f.locks = driver, now
			}
			return nil
		})
		if err == nil && os.SameFile(f.locks, now) {
			return f.oneName(now)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return gone{engine.Misconfiguredf("the file's -shm was deleted or replaced while it was open; end all programs that use it before you change it or what is beside it")}
}
