package main

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// render makes a page's HTML, with links that lead within the site or to the source.
func (s *site) render(p *page) error {
	for _, link := range p.doc.Links() {
		switch n := link.Node.(type) {
		case *ast.Link:
			n.Destination = []byte(s.target(p, link.Target))
			// A document that is named by its file has a better name here.
			file, _, _ := docs.Local(p.doc.Path, link.Target)
			if to, ok := s.byPath[file]; ok && strings.HasSuffix(p.doc.Text(n), ".md") {
				n.RemoveChildren(n)
				n.AppendChild(n, ast.NewString([]byte(to.chapter.Title)))
			}
		case *ast.Image:
			file, _, local := docs.Local(p.doc.Path, link.Target)
			if !local {
				return fmt.Errorf("%s:%d: the picture %s is somewhere else", p.doc.Path, link.Line, link.Target)
			}
			s.pictures[file] = true
			if strings.HasSuffix(file, ".svg") {
				// No document's drawing has colours of its own for the dark.
				n.SetAttributeString("class", []byte("drawing paper"))
			}
		}
	}
	for _, h := range p.doc.Headings {
		if h.Level == 1 {
			continue
		}
		mark := ast.NewLink()
		mark.Destination = []byte("#" + h.ID)
		mark.SetAttributeString("class", []byte("anchor"))
		mark.SetAttributeString("aria-label", []byte("Link to this heading"))
		mark.AppendChild(mark, ast.NewString([]byte("#")))
		h.Node.AppendChild(h.Node, mark)
	}
	var out bytes.Buffer
	if err := pages.Renderer().Render(&out, p.doc.Source, p.doc.Root); err != nil {
		return err
	}
	p.body = template.HTML(out.String())
	return nil
}

// target returns where a link leads on the site.
func (s *site) target(p *page, written string) string {
	file, anchor, local := docs.Local(p.doc.Path, written)
	if !local {
		return written
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	if file == p.doc.Path {
		return anchor
	}
	if to, ok := s.byPath[path.Clean(file)]; ok {
		return href(p, to) + anchor
	}
	return s.repository + "/blob/main/" + file + anchor
}

// pages renders what docs.Markdown reads. Raw HTML in a document is left out: there is none.
var pages = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(
	renderer.WithNodeRenderers(util.Prioritized(blocks{}, 1)), html.WithXHTML()))

// blocks renders what may be wider than the page in a box that scrolls, and Go in colours.
type blocks struct{}

func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, fenced)
	r.Register(east.KindTable, table)
}

func table(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"wide\"><table>\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

func fenced(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := n.(*ast.FencedCodeBlock)
	var text bytes.Buffer
	for i := range block.Lines().Len() {
		line := block.Lines().At(i)
		text.Write(line.Value(source))
	}
	code := template.HTMLEscapeString(text.String())
	switch string(block.Language(source)) {
	case "go":
		code = colours(text.Bytes())
	case "mermaid": // a browser needs a library to draw it, and the site fetches nothing
		_, _ = w.WriteString("<p>Diagram, in Mermaid's words:</p>\n")
	}
	_, _ = w.WriteString("<pre><code>" + code + "</code></pre>\n")
	return ast.WalkContinue, nil
}
