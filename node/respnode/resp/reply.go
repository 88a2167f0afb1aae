package resp

import (
	"errors"
	"fmt"
	"strconv"
)

// Command is a command and its arguments.
type Command []string

// Error is an error that a server sent, without the word ERR.
type Error string

// Error returns what the server said.
func (e Error) Error() string { return string(e) }

// IsError returns what a server said, if err is that. An error that wraps one is a library's words
// about it.
func IsError(err error) (Error, bool) {
	e, ok := err.(Error)
	return e, ok
}

// ErrNil is the error of a reply that is null, where something else was expected.
var ErrNil = errors.New("a reply is null")

var errKind = errors.New("a reply is not of the kind that was asked for")

// Reply is a server's reply, or an error in place of one. The zero Reply is null.
type Reply struct {
	kind   kind
	number int64
	text   string
	list   []Reply
	err    error
}

type kind uint8

const (
	null kind = iota
	number
	text
	list // or a map: keys and values in turn
	failure
	other
)

// Null returns a null.
func Null() Reply { return Reply{} }

// Number returns an integer.
func Number(n int64) Reply { return Reply{kind: number, number: n} }

// Text returns a string, of whatever type.
func Text(s string) Reply { return Reply{kind: text, text: s} }

// List returns an array or a set, or a map as its keys and values in turn.
func List(values []Reply) Reply { return Reply{kind: list, list: values} }

// Other returns a reply of a type that no command of a node is answered with.
func Other() Reply { return Reply{kind: other} }

// Failure returns an error: an Error if it is the server's, otherwise why there is no
// reply. It is not nil.
func Failure(err error) Reply { return Reply{kind: failure, err: err} }

// Err returns the error of a Failure, ErrNil of a null, and nil of all other replies.
func (r *Reply) Err() error {
	switch r.kind {
	case failure:
		return r.err
	case null:
		return ErrNil
	}
	return nil
}

// Said reports whether it is a reply: an Error is one too.
func (r *Reply) Said() bool {
	_, said := r.err.(Error)
	return r.kind != failure || said
}

// IsNumber reports whether it is an integer.
func (r *Reply) IsNumber() bool { return r.kind == number }

// IsList reports whether it is a list.
func (r *Reply) IsList() bool { return r.kind == list }

// ToString returns a string.
func (r *Reply) ToString() (string, error) {
	if r.kind == text {
		return r.text, nil
	}
	return "", r.mismatch()
}

func (r *Reply) mismatch() error {
	if err := r.Err(); err != nil {
		return err
	}
	return errKind
}

// AsInt64 returns an integer, or a string that is one.
func (r *Reply) AsInt64() (int64, error) {
	if r.kind == number {
		return r.number, nil
	}
	s, err := r.ToString()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// ToList returns the elements of a list.
func (r *Reply) ToList() ([]Reply, error) {
	if r.kind == list {
		return r.list, nil
	}
	return nil, r.mismatch()
}

// AsStrSlice returns the strings of a list. What is no string in it is an empty one.
func (r *Reply) AsStrSlice() ([]string, error) {
	values, err := r.ToList()
	if err != nil {
		return nil, err
	}
	all := make([]string, len(values))
	for i := range values {
		all[i] = values[i].text
	}
	return all, nil
}

// AsIntSlice returns the integers of a list. What is neither an integer nor a string is 0.
func (r *Reply) AsIntSlice() ([]int64, error) {
	values, err := r.ToList()
	if err != nil {
		return nil, err
	}
	all := make([]int64, len(values))
	for i := range values {
		if all[i] = values[i].number; values[i].text != "" {
			if all[i], err = strconv.ParseInt(values[i].text, 10, 64); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// AsMap returns a map, or a list of keys and values in turn.
func (r *Reply) AsMap() (map[string]Reply, error) {
	values, err := r.ToList()
	if err != nil {
		return nil, err
	}
	if len(values)%2 != 0 {
		return nil, fmt.Errorf("%w: a map of %d keys and values", errKind, len(values))
	}
	all := make(map[string]Reply, len(values)/2)
	for i := 0; i < len(values); i += 2 {
		all[values[i].text] = values[i+1]
	}
	return all, nil
}

// AsStrMap returns AsMap with its values as strings.
func (r *Reply) AsStrMap() (map[string]string, error) {
	values, err := r.AsMap()
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(values))
	for key, value := range values {
		all[key] = value.text
	}
	return all, nil
}

// AsScan returns the reply to SCAN: where to go on, 0 at the end, and what was found.
func (r *Reply) AsScan() (cursor uint64, found []string, err error) {
	values, err := r.ToList()
	if err == nil && len(values) < 2 {
		err = fmt.Errorf("%w: a page of %d parts", errKind, len(values))
	}
	if err != nil {
		return 0, nil, err
	}
	if cursor, err = strconv.ParseUint(values[0].text, 10, 64); err != nil {
		return 0, nil, err
	}
	found, err = values[1].AsStrSlice()
	return cursor, found, err
}

// Score is a member of a sorted set.
type Score struct {
	Member string
	Score  float64
}

// AsScores returns members with their scores: lists of two, or members and scores in turn.
func (r *Reply) AsScores() ([]Score, error) {
	values, err := r.ToList()
	if err != nil {
		return nil, err
	}
	var flat []Reply
	for i := range values {
		if values[i].kind != list {
			flat = values
			break
		}
		if len(values[i].list) != 2 {
			return nil, fmt.Errorf("%w: a score of %d parts", errKind, len(values[i].list))
		}
		flat = append(flat, values[i].list...)
	}
	scores := make([]Score, len(flat)/2)
	for i := range scores {
		if scores[i].Member, err = flat[2*i].ToString(); err != nil {
			return nil, err
		}
		if scores[i].Score, err = strconv.ParseFloat(flat[2*i+1].text, 64); err != nil {
			return nil, err
		}
	}
	return scores, nil
}
