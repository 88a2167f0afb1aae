package main

import (
	"fmt"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// checker goes through all documents.
type checker struct {
	root     string
	problems []string
	found    map[string]*docs.Document // by path

	links, blocks, commands, names, sentences int
}

func (c *checker) wrong(d *docs.Document, line int, format string, a ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s:%d: %s", d.Path, line, fmt.Sprintf(format, a...)))
}
