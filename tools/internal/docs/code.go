package docs

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Code is one block of code, or one piece in backticks.
type Code struct {
	Line     int
	Language string // of a fenced block; empty: an indented block, or one that says nothing
	Text     string
}

// Blocks returns the fenced and the indented blocks of code.
func (d *Document) Blocks() []Code {
	var all []Code
	walk(d.Root, func(n ast.Node) {
		language := ""
		switch n := n.(type) {
		case *ast.CodeBlock:
		case *ast.FencedCodeBlock:
			language = string(n.Language(d.Source))
		default:
			return
		}
		var text strings.Builder
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			text.Write(line.Value(d.Source))
		}
		all = append(all, Code{d.line(n), language, text.String()})
	})
	return all
}

// Spans returns what is in backticks.
func (d *Document) Spans() []Code {
	var all []Code
	walk(d.Root, func(n ast.Node) {
		if span, ok := n.(*ast.CodeSpan); ok {
			all = append(all, Code{Line: d.line(span), Text: string(bytes.TrimSpace([]byte(d.Text(span))))})
		}
	})
	return all
}
