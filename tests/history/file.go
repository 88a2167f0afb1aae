package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Read reads a history from a file: a line with the Header, then a line for
// each Event, in the order of At. Its error says which line is wrong.
//
// It says nothing about whether the events fit together: Check does.
func Read(path string) (*History, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h, err := decode(file)
	if err != nil {
		return nil, fmt.Errorf("%s, %w", path, err)
	}
	return h, nil
}

func decode(r io.Reader) (*History, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	h := &History{}
	number := 0
	for lines.Scan() {
		number++
		if err := h.decodeLine(lines.Bytes(), number == 1); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if number == 0 {
		return nil, errors.New("line 1: the file is empty")
	}
	return h, nil
}

func (h *History) decodeLine(line []byte, first bool) error {
	if first {
		if err := strict(line, &h.Header); err != nil {
			return fmt.Errorf("not the header of a history: %w", err)
		}
		return h.Header.check()
	}
	var e Event
	if err := strict(line, &e); err != nil {
		return fmt.Errorf("not an event: %w", err)
	}
	if !slices.Contains(kinds, e.Kind) {
		return fmt.Errorf("there is no kind of event %q", e.Kind)
	}
	h.Events = append(h.Events, e)
	return nil
}

// strict decodes one object, and refuses fields that it does not know: a
// misspelt one would be an event that says less than was meant.
func strict(line []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more than one object on the line")
	}
	return nil
}

var kinds = []Kind{
	Acquire, Acquired, Failed, Holds, Extend, Extended, ExtendFailed, Ended, Downgrade, Downgraded, Release, Released,
	Closed, Missed, Follows, Absent,
	ReadValue, Wrote, Refused,
	Fault, Healed, Quiet, Leftover, End,
}

var libraries = []string{"fenlock", "redsync", "redislock"}

func (h Header) check() error {
	switch {
	case !slices.Contains(libraries, h.Library):
		return fmt.Errorf("the library %q is not one of %q", h.Library, libraries)
	case len(h.Names) == 0:
		return errors.New("the header has no names")
	case h.Clients <= 0:
		return errors.New("the header does not say how many clients there were")
	case h.TTL <= 0 || h.MaxTTL < h.TTL:
		return fmt.Errorf("the header has a TTL of %v and a MaxTTL of %v", h.TTL, h.MaxTTL)
	}
	return nil
}

// Write writes the history to a file, as it is: even one that Read would refuse
// is worth keeping.
func (h *History) Write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	lines := json.NewEncoder(w)
	err = lines.Encode(h.Header)
	for i := 0; err == nil && i < len(h.Events); i++ {
		err = lines.Encode(h.Events[i])
	}
	return errors.Join(err, w.Flush(), file.Close())
}

// Merge puts the events of several sources into the order of At. Events of the
// same At stay in the order of their source, and sources in the order given.
func Merge(sources ...[]Event) []Event {
	all := slices.Concat(sources...)
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return all
}
