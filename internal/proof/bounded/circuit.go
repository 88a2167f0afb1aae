package bounded

import (
	"fmt"
	"slices"
	"strings"
)

// bit is a truth that a solver may have to find: a constant, or a number of a circuit.
type bit int

const (
	no  bit = 0
	yes bit = 1
)

// circuit is a set of truths, each made of earlier ones.
type circuit struct {
	lines []string       // declarations and what is known, for a solver
	gates map[string]bit // by what they are made of
	not   map[bit]bit
	count bit
}

func newCircuit() *circuit {
	return &circuit{gates: map[string]bit{}, not: map[bit]bit{no: yes, yes: no}, count: yes}
}

func (c *circuit) name(b bit) string {
	switch b {
	case no:
		return "false"
	case yes:
		return "true"
	}
	return fmt.Sprintf("x%d", b)
}

// variable returns a truth that is free.
func (c *circuit) variable() bit {
	c.count++
	c.lines = append(c.lines, fmt.Sprintf("(declare-const x%d Bool)", c.count))
	return c.count
}

func (c *circuit) gate(op string, args []bit) bit {
	key := op
	for _, a := range args {
		key += " " + c.name(a)
	}
	if b, is := c.gates[key]; is {
		return b
	}
	b := c.variable()
	c.lines = append(c.lines, fmt.Sprintf("(assert (= x%d (%s)))", b, key))
	c.gates[key] = b
	return b
}

func (c *circuit) negate(a bit) bit {
	if b, is := c.not[a]; is {
		return b
	}
	b := c.gate("not", []bit{a})
	c.not[a], c.not[b] = b, a
	return b
}

func (c *circuit) and(args ...bit) bit { return c.join("and", no, yes, args) }
func (c *circuit) or(args ...bit) bit  { return c.join("or", yes, no, args) }

// join returns the conjunction (decides is no, neutral yes) or the disjunction.
func (c *circuit) join(op string, decides, neutral bit, args []bit) bit {
	var left []bit
	for _, a := range args {
		if a == decides {
			return decides
		}
		if a != neutral {
			left = append(left, a)
		}
	}
	slices.Sort(left)
	left = slices.Compact(left)
	for _, a := range left {
		if b, is := c.not[a]; is && slices.Contains(left, b) {
			return decides
		}
	}
	switch len(left) {
	case 0:
		return neutral
	case 1:
		return left[0]
	}
	return c.gate(op, left)
}

func (c *circuit) choose(cond, then, otherwise bit) bit {
	return c.or(c.and(cond, then), c.and(c.negate(cond), otherwise))
}

func (c *circuit) assert(a bit) {
	if a != yes {
		c.lines = append(c.lines, "(assert "+c.name(a)+")")
	}
}

func (c *circuit) exactlyOne(all []bit) {
	c.assert(c.or(all...))
	for i, a := range all {
		for _, b := range all[:i] {
			c.assert(c.negate(c.and(a, b)))
		}
	}
}

func (c *circuit) text() string { return strings.Join(c.lines, "\n") + "\n" }
