package docs

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
)

// Prose is one piece of text for people.
type Prose struct {
	Line    int
	Text    string // without marks; each piece of code is a "`"
	Running bool   // it is read in one go: no heading, no label before a text, no cell of a table
	Lines   []string
}

// Prose returns the headings, paragraphs, items of lists and cells of tables. An emphasized label,
// such as "**Not promised.**" before a paragraph, is a piece of its own.
func (d *Document) Prose() []Prose {
	var all []Prose
	walk(d.Root, func(n ast.Node) {
		p := Prose{Line: d.line(n)}
		switch n.(type) {
		case *ast.Paragraph, *ast.TextBlock:
			p.Running = true
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				start := bytes.LastIndexByte(d.Source[:line.Start], '\n') + 1 // with the mark of a list
				p.Lines = append(p.Lines, strings.TrimRight(string(d.Source[start:line.Stop]), "\n"))
			}
		case *ast.Heading, *extension.TableCell:
		default:
			return
		}
		label, text := d.words(n)
		if label != "" {
			all = append(all, Prose{Line: p.Line, Text: label})
		}
		p.Text = text
		all = append(all, p)
	})
	return all
}

// words returns a node's text, and what is emphasized at its beginning if that ends like a
// sentence.
func (d *Document) words(n ast.Node) (label, text string) {
	var b strings.Builder
	for inline := n.FirstChild(); inline != nil; inline = inline.NextSibling() {
		d.inline(&b, inline)
		_, ok := inline.(*ast.Emphasis)
		if said := strings.TrimSpace(b.String()); ok && label == "" && inline.PreviousSibling() == nil &&
			said != "" && strings.ContainsAny(said[len(said)-1:], ".?:!") {
			label = said
			b.Reset()
		}
	}
	return label, strings.TrimSpace(b.String())
}

func (d *Document) inline(b *strings.Builder, n ast.Node) {
	switch n := n.(type) {
	case *ast.CodeSpan:
		b.WriteByte('`')
		return
	case *ast.AutoLink:
		b.WriteByte('`')
		return
	case *ast.Text:
		b.Write(n.Segment.Value(d.Source))
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
	case *ast.String:
		b.Write(n.Value)
	}
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		d.inline(b, child)
	}
}

var sentenceEnd = regexp.MustCompile(`[.!?;]["”')\]]*\s+`)

// Sentences cuts a text where a sentence ends, or a part of one before a semicolon.
func Sentences(text string) []string {
	var all []string
	for {
		end := sentenceEnd.FindStringIndex(text)
		if end == nil {
			return append(all, text)
		}
		all = append(all, strings.TrimSpace(text[:end[1]]))
		text = text[end[1]:]
	}
}
