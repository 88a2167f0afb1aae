package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A sequence is what a file of words says.
type sequence struct {
	title string
	lanes []string
	steps []step
}

// A step is one line. A message has a from and a to, a note and a bar's change only a
// from, a heading neither. Lanes are counted from 0 on, -1 is none.
type step struct {
	kind     string // message, lost, refused, note, heading, or the state that begins
	from, to int
	text     string
	beside   bool // a note at the height of the one before
}

// states are what a lane's bar can show from a step on.
var states = []string{"holds", "believes", "paused", "leased", "ends"}

var arrows = []struct{ sign, kind string }{{" -> ", "message"}, {" -x ", "lost"}, {" => ", "refused"}}

func parse(words string) (sequence, error) {
	var s sequence
	for i, line := range strings.Split(words, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if err := s.parseLine(line); err != nil {
			return s, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if s.title == "" || len(s.lanes) == 0 || len(s.steps) == 0 {
		return s, errors.New("a title, lanes and steps are needed")
	}
	return s, nil
}

func (s *sequence) parseLine(line string) error {
	head, text, colon := strings.Cut(line, ":")
	text = strings.TrimSpace(text)
	switch head {
	case "title":
		s.title = text
		return nil
	case "lanes":
		for _, lane := range strings.Split(text, "|") {
			s.lanes = append(s.lanes, strings.TrimSpace(lane))
		}
		return nil
	case "---":
		s.steps = append(s.steps, step{kind: "heading", from: -1, to: -1, text: text})
		return nil
	}
	if !colon {
		for _, state := range states {
			if name, found := strings.CutSuffix(line, " "+state); found {
				return s.add(state, name, "", "")
			}
		}
		return fmt.Errorf("%q is no step", line)
	}
	for _, arrow := range arrows {
		if from, to, found := strings.Cut(head, arrow.sign); found {
			return s.add(arrow.kind, from, to, text)
		}
	}
	head, beside := strings.CutPrefix(head, "& ")
	if err := s.add("note", head, "", text); err != nil {
		return err
	}
	s.steps[len(s.steps)-1].beside = beside
	return nil
}

// add appends a step between lanes that are known by name. A to that is empty is none.
func (s *sequence) add(kind, from, to, text string) error {
	next := step{kind: kind, from: slices.Index(s.lanes, from), to: slices.Index(s.lanes, to), text: text}
	switch {
	case next.from < 0:
		return fmt.Errorf("there is no lane %q", from)
	case to != "" && next.to < 0:
		return fmt.Errorf("there is no lane %q", to)
	case next.from == next.to:
		return fmt.Errorf("%q sends to itself", from)
	}
	s.steps = append(s.steps, next)
	return nil
}
