package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
	"github.com/yuin/goldmark/ast"
)

var (
	link  = regexp.MustCompile(`\[([^][]*)\]\(([^()\s]+)\)`)
	items = regexp.MustCompile(`^(?:-|[0-9]+\.) +`)
	code  = regexp.MustCompile("`[^`]+`")
)

// diagram is above the text of each diagram.
const diagram = "Diagram, in Mermaid's words:"

// markdown returns a document as MkDocs reads it. GitHub's anchors are written at the headings,
// links lead within the site or to the source, and lists are as Python's Markdown wants them.
func (s *site) markdown(p page) []byte {
	ids := make(map[int]string) // by the end of the heading's line
	for _, h := range p.doc.Headings {
		ids[h.Node.Lines().At(0).Stop] = h.ID
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "---\ntitle: %q\ndescription: %q\n---\n", p.doc.Title(), p.chapter.About)
	at, fenced, before := 0, false, ""
	var columns []int // where the text of the items begins that a line is in, the innermost last
	apart := false    // there was an empty line in the list
	for line := range bytes.Lines(p.doc.Source) {
		at += len(line)
		text := strings.TrimRight(string(line), "\n")
		content := strings.TrimLeft(text, " ")
		fence := strings.HasPrefix(content, "```")
		in, ended := len(text)-len(content), false
		for !fenced && content != "" && len(columns) > 0 && in < columns[len(columns)-1] {
			columns, ended = columns[:len(columns)-1], true
		}
		if len(columns) > 0 && content != "" {
			in = max(in-columns[len(columns)-1], 0)
			text = strings.Repeat(" ", 4*len(columns)+in) + content
		}
		if item := items.FindString(content); item != "" && in < 4 && !fenced {
			if before != "" && (apart || !ended) {
				out.WriteByte('\n')
			}
			columns = append(columns, len(line)-len(content)-1+len(item))
		}
		apart = len(columns) > 0 && (apart || content == "")
		switch {
		case content == "```mermaid": // a browser needs a library to draw it, and the site fetches nothing
			out.WriteString(strings.TrimSuffix(text, content) + diagram + "\n\n")
		case !fenced:
			text = link.ReplaceAllStringFunc(text, func(written string) string { return s.link(p, written) })
			if strings.HasPrefix(content, "|") {
				text = code.ReplaceAllStringFunc(text, func(code string) string { return strings.ReplaceAll(code, `\|`, "|") })
			}
			if id, ok := ids[at-1]; ok {
				text += " {: #" + id + " }"
			}
		}
		fenced = fenced != fence
		before = content
		out.WriteString(text + "\n")
	}
	return out.Bytes()
}

// link returns a link as it has to be on the site.
func (s *site) link(p page, written string) string {
	m := link.FindStringSubmatch(written)
	text, target := m[1], m[2]
	file, anchor, local := docs.Local(p.doc.Path, target)
	if !local {
		return written
	}
	if title, ok := s.titles[file]; ok {
		if strings.HasSuffix(text, ".md") {
			text = title // a document that is named by its file has a better name here
		}
	} else if !isPicture(file) {
		target = s.repository + "/blob/main/" + file
		if anchor != "" {
			target += "#" + anchor
		}
	}
	return "[" + text + "](" + target + ")"
}

// pictures returns the paths of a document's pictures.
func (p page) pictures() []string {
	var all []string
	for _, l := range p.doc.Links() {
		if _, ok := l.Node.(*ast.Image); ok {
			if file, _, local := docs.Local(p.doc.Path, l.Target); local {
				all = append(all, file)
			}
		}
	}
	return all
}

func isPicture(file string) bool {
	return strings.HasSuffix(file, ".png") || strings.HasSuffix(file, ".svg")
}
