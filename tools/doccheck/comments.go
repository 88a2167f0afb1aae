package main

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// mostWideCode is of a line of Go. A comment that has a line to itself has the width of text.
const mostWideCode = 120

// mostText is of a string. A longer one stays in a piece, however wide its line is, so that those
// who have read it find it.
const mostText = 80

// marks begin the comments of files that are not Go, by extension.
var marks = map[string]string{
	".lua": "--", ".sql": "--", ".sh": "#", ".yml": "#", ".yaml": "#", ".conf": "#", ".service": "#",
	".model": ";", ".runs": ";",
}

// checkComments checks the English of all Go files: comments, and the strings of what is no test,
// which users see as errors and help. It checks comments of other languages, too.
func (c *checker) checkComments() error {
	return docs.Walk(c.root, func(file string) error {
		mark := marks[path.Ext(file)]
		if mark == "" && path.Ext(file) != ".go" {
			return nil
		}
		source, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		if mark != "" {
			c.problems = append(c.problems, checkMarked(file, string(source), mark)...)
			return nil
		}
		found, err := c.checkFile(file, source)
		c.problems = append(c.problems, found...)
		return err
	})
}

// checkMarked returns the nameless phrases in comments that begin with mark, line by line.
func checkMarked(name, source, mark string) (problems []string) {
	for i, line := range strings.Split(source, "\n") {
		if _, text, ok := strings.Cut(line, mark+" "); ok {
			for _, said := range phrasesIn(text, nameless) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s\n\t%s", name, i+1, text, said))
			}
		}
	}
	return problems
}

// checkFile returns what is wrong with the English of one Go file, and with the width of its lines.
func (c *checker) checkFile(name string, source []byte) (problems []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	wrong := func(line int, format string, a ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: %s", name, line, fmt.Sprintf(format, a...)))
	}
	fixed := make(map[int]bool) // lines whose text is not ours to break: of raw strings, and what an example prints
	fix := func(n ast.Node) {
		for line := files.Position(n.Pos()).Line; line <= files.Position(n.End()).Line; line++ {
			fixed[line] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		line := files.Position(literal.Pos()).Line
		if line < files.Position(literal.End()).Line || utf8.RuneCountInString(literal.Value) > mostText {
			fix(literal)
		}
		// A word by itself is a name, as of a user of the system. prose.go
		// has the phrases themselves.
		text, err := strconv.Unquote(literal.Value)
		if err == nil && strings.Contains(text, " ") && !strings.HasSuffix(name, "_test.go") &&
			path.Base(name) != "prose.go" {
			for _, sentence := range docs.Sentences(text) {
				for _, said := range phrasesIn(sentence, phrases) {
					wrong(line, "%q\n\t%s", sentence, said)
				}
			}
		}
		return true
	})
	for _, group := range file.Comments {
		if isOutput(group) {
			fix(group)
			continue
		}
		for _, sentence := range sentencesOf(group) {
			c.sentences++
			for _, said := range wrongWith(sentence, false) {
				wrong(files.Position(group.Pos()).Line, "%s\n\t%s", sentence, said)
			}
		}
	}
	for i, line := range strings.Split(string(source), "\n") {
		width, text := len([]rune(line)), strings.TrimSpace(line)
		switch {
		case fixed[i+1]:
		case !strings.HasPrefix(text, "//"):
			if width > mostWideCode {
				wrong(i+1, "the line has more than %d characters", mostWideCode)
			}
		case strings.HasPrefix(text, "// ") && !strings.Contains(text, "://"): // no directive, table or address
			if width > mostWide {
				wrong(i+1, "a line of a comment has more than %d characters", mostWide)
			}
		}
	}
	return problems, nil
}

// sentencesOf returns the sentences of a comment, without its code.
func sentencesOf(group *ast.CommentGroup) (all []string) {
	var add func(blocks []comment.Block)
	add = func(blocks []comment.Block) {
		for _, block := range blocks {
			switch block := block.(type) {
			case *comment.Heading:
				all = append(all, docs.Sentences(plain(block.Text))...)
			case *comment.Paragraph:
				all = append(all, docs.Sentences(plain(block.Text))...)
			case *comment.List:
				for _, item := range block.Items {
					add(item.Content)
				}
			}
		}
	}
	// The parser would remove the indentation of a comment that has nothing else, by which it knows
	// lists and code.
	add(new(comment.Parser).Parse("Text:\n\n" + group.Text()).Content[1:])
	return all
}

// isOutput reports whether a comment is what an example prints.
func isOutput(group *ast.CommentGroup) bool {
	first, _, _ := strings.Cut(strings.ToLower(group.Text()), ":")
	return first == "output" || first == "unordered output"
}

// plain is the text of a paragraph on one line.
func plain(text []comment.Text) string {
	var b strings.Builder
	for _, t := range text {
		switch t := t.(type) {
		case comment.Plain:
			b.WriteString(string(t))
		case comment.Italic:
			b.WriteString(string(t))
		case *comment.Link:
			b.WriteString(plain(t.Text))
		case *comment.DocLink:
			b.WriteString(plain(t.Text))
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
