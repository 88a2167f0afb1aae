package main

import (
	"go/scanner"
	"go/token"
	"html/template"
	"strings"
)

// colours returns Go source as HTML in which comments, strings and keywords are marked.
// That is all that helps a reader, and needs no library.
func colours(source []byte) string {
	file := token.NewFileSet().AddFile("", 1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments) // a piece of a file need not be right
	var out strings.Builder
	done := 0
	plain := func(to int) {
		out.WriteString(template.HTMLEscapeString(string(source[done:to])))
		done = to
	}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			plain(len(source))
			return out.String()
		}
		class := ""
		switch {
		case tok == token.COMMENT:
			class = "c"
		case tok == token.STRING || tok == token.CHAR:
			class = "s"
		case tok.IsKeyword():
			class = "k"
		}
		if class == "" {
			continue
		}
		start := file.Offset(pos)
		plain(start)
		out.WriteString(`<span class="` + class + `">`)
		plain(start + len(text))
		out.WriteString(`</span>`)
	}
}
