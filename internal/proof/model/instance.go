package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Instance is a model for few nodes, holders, rounds and numbers.
type Instance struct {
	Model    *Model
	Elements map[string][]string            // by sort
	members  map[string]map[string][]string // of a family: by sort and set
	sortOf   map[string]*Sort
}

// NewInstance returns the instance with that many elements of each sort that is no family.
func NewInstance(m *Model, sizes map[string]int) (*Instance, error) {
	in := &Instance{Model: m, Elements: map[string][]string{}, members: map[string]map[string][]string{},
		sortOf: map[string]*Sort{}}
	for _, s := range m.Sorts {
		n := sizes[s.Name]
		if s.Member != nil {
			continue
		}
		if n < 1 || n > 26 {
			return nil, fmt.Errorf("an instance needs 1 to 26 of the sort %s, not %d", s.Name, n)
		}
		for i := range n {
			in.add(s, element(s, i))
		}
	}
	for _, s := range m.Sorts {
		if s.Member == nil {
			continue
		}
		of := in.Elements[s.Of.Name]
		size := len(of)/2 + 1
		switch s.Size {
		case "n-q+1":
			size = len(of) - size + 1
		case "q-1":
			size--
		}
		in.members[s.Name] = map[string][]string{}
		for _, set := range subsets(of, size) {
			name := strings.Join(set, "")
			in.members[s.Name][name] = set
			if s.Size == "q" || in.sortOf[name] == nil {
				in.add(s, name)
			} else {
				in.Elements[s.Name] = append(in.Elements[s.Name], name)
			}
		}
	}
	return in, nil
}

func (in *Instance) add(s *Sort, name string) {
	in.Elements[s.Name] = append(in.Elements[s.Name], name)
	in.sortOf[name] = s
}

// element returns the name of the element i: 0, 1 of an ordered sort, A, B where variables are
// capitals, otherwise n1, n2.
func element(s *Sort, i int) string {
	first := s.Letters[0]
	switch {
	case s.Order != nil:
		return strconv.Itoa(i)
	case first[0] <= 'Z':
		return string(rune(first[0]) + rune(i))
	}
	return first + strconv.Itoa(i+1)
}

func subsets(of []string, size int) [][]string {
	if size == 0 {
		return [][]string{nil}
	}
	var out [][]string
	for i := 0; i+size <= len(of); i++ {
		for _, rest := range subsets(of[i+1:], size-1) {
			out = append(out, append([]string{of[i]}, rest...))
		}
	}
	return out
}

// Fixed returns what a fixed symbol is for these elements, if that is the same in every instance.
// Such are an order, its least element, the membership of a family. Otherwise known is false.
func (in *Instance) Fixed(s *Symbol, args []string) (value string, holds, known bool) {
	for _, sort := range in.Model.Sorts {
		switch s {
		case sort.Order:
			a, _ := strconv.Atoi(args[0])
			b, _ := strconv.Atoi(args[1])
			return "", a <= b, true
		case sort.Least:
			return "0", false, true
		case sort.Member:
			return "", slices.Contains(in.members[sort.Name][args[1]], args[0]), true
		}
	}
	return "", false, false
}

// Tuples returns all tuples of elements of these sorts.
func (in *Instance) Tuples(sorts []*Sort) [][]string {
	out := [][]string{nil}
	for _, s := range sorts {
		var longer [][]string
		for _, t := range out {
			for _, x := range in.Elements[s.Name] {
				longer = append(longer, append(t[:len(t):len(t)], x))
			}
		}
		out = longer
	}
	return out
}
