//go:build linux

package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/history"
)

// eventLog is a client's own file of events. Each is one write to a file that is open for
// appending. So a killed process loses the event that it was about to write, and no other.
type eventLog struct{ file *os.File }

func openLog(path string) (*eventLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &eventLog{file}, err
}

// write adds an event, of now unless it says when. A client that cannot write
// down what it does must not go on.
func (l *eventLog) write(e history.Event) {
	if e.At == 0 {
		e.At = int64(clock.Now())
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the client's events:", err)
		os.Exit(2)
	}
}

// readLog reads a client's events. What was cut off at the end is dropped.
func readLog(path string) (events []history.Event, err error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil // killed before its first event
	}
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		var e history.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w: %q", path, err, line)
		}
		events = append(events, e)
	}
	return events, nil
}
