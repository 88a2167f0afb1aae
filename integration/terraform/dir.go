package fenlockterraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Versions is how many versions of a record a Dir keeps.
const Versions = 10

// Dir is a Store in a directory, which several servers may share: on one machine, or by a file system that links files
// atomically, as NFS does. Not on Windows.
//
// It has a directory for each state, with a file for each of the last Versions versions of its record: a line of JSON, and then the
// state. To go back, copy what is behind that line, and terraform state push it. A lock and its release are versions too: five plans
// are ten. On a full disk states are read, and neither written, locked nor unlocked.
//
// Names that differ in upper and lower case only need a file system that tells them apart.
type Dir struct{ root string }

// OpenDir returns a Dir. The directory is made if it does not exist, for its owner only.
func OpenDir(root string) (*Dir, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	return &Dir{root}, nil
}

// header is the first line of a file.
type header struct {
	Lock     json.RawMessage `json:"lock,omitempty"`
	LockID   string          `json:"lock_id,omitempty"`
	Released []string        `json:"released,omitempty"`
}

// dir returns the directory of a name. A name has no "+".
func (d *Dir) dir(name string) string {
	return filepath.Join(d.root, strings.ReplaceAll(name, "/", "+"))
}

// file returns the name of a version's file: what sorts last is newest.
func file(version uint64) string { return fmt.Sprintf("%020d", version) }

// versions returns those that are there, in their order.
func versions(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []uint64
	for _, e := range entries {
		if v, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && e.Name() == file(v) {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Load implements Store.
func (d *Dir) Load(ctx context.Context, name string) (Record, error) {
	if err := checkName(name); err != nil {
		return Record{}, err
	}
	dir := d.dir(name)
	for {
		all, err := versions(dir)
		if err != nil || len(all) == 0 {
			return Record{}, err
		}
		newest := all[len(all)-1]
		text, err := os.ReadFile(filepath.Join(dir, file(newest)))
		switch {
		case errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil:
			continue // it was the newest, and Versions were written meanwhile
		case err != nil:
			return Record{}, err
		}
		var h header
		line, state, found := bytes.Cut(text, []byte("\n"))
		if err := json.Unmarshal(line, &h); err != nil || !found {
			return Record{}, fmt.Errorf("fenlockterraform: %s is damaged; remove it to go back by one version", filepath.Join(dir, file(newest)))
		}
		return Record{Version: newest, State: state, Lock: h.Lock, LockID: h.LockID, Released: h.Released}, nil
	}
}

// Save implements Store.
func (d *Dir) Save(_ context.Context, name string, r Record) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	line, err := json.Marshal(header{r.Lock, r.LockID, r.Released})
	if err != nil {
		return err
	}
	dir := d.dir(name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if r.Version == 1 { // whoever made the directory may have crashed before this
		if err := syncDir(d.root); err != nil {
			return err
		}
	}
	temporary, err := create(dir, r.Version, line, r.State)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	place := filepath.Join(dir, file(r.Version))
	if err := os.Link(temporary, place); err != nil && !linked(temporary, place) {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) { // see tidy
			return fmt.Errorf("%w: %q", ErrConflict, name)
		}
		return err
	}
	all, err := versions(dir)
	if err != nil {
		return err
	}
	// Whoever is so late that the version may have been removed has made a file that nobody reads.
	if all[len(all)-1] >= r.Version+Versions {
		return fmt.Errorf("%w: %q", ErrConflict, name)
	}
	for _, v := range all[:max(0, len(all)-Versions)] {
		os.Remove(filepath.Join(dir, file(v))) // by the next one, if not now
	}
	tidy(dir, r.Version)
	return syncDir(dir)
}

// unfinished is what the name of a file begins with that is to become a version.
const unfinished = ".new-"

// tidy removes what servers have left that died in the middle of a write. That version is stored, so that nothing can come any more of
// a file for it, or for an earlier one: whoever is writing one is too late anyway.
func tidy(dir string, version uint64) {
	entries, _ := os.ReadDir(dir) // by the next one, if not now
	for _, e := range entries {
		of, is := strings.CutPrefix(e.Name(), unfinished)
		of, _, _ = strings.Cut(of, "-")
		if is && of <= file(version) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// create returns the name of a new file for a version, which is on the disk.
func create(dir string, version uint64, line, state []byte) (name string, err error) {
	f, err := os.CreateTemp(dir, unfinished+file(version)+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(slices.Concat(line, []byte("\n"), state))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// linked reports whether two names are one file: a link by NFS may have been made although it failed, when
// its answer was lost.
func linked(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// syncDir has the names in a directory survive a crash.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
