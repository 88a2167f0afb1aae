package model

import (
	"fmt"
	"strings"
	"unicode"
)

// Pos is a place in a file.
type Pos struct {
	File string
	Line int
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Error is what is wrong with a model, and where.
type Error struct {
	Pos Pos
	Msg string
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// A Form is a word, a text in quotation marks, or a list of forms.
type Form struct {
	Pos    Pos
	Word   string  // empty for a list
	Quoted bool    // the word is a text
	List   []*Form // of a list
}

// IsList reports whether the form is a list, maybe an empty one.
func (f *Form) IsList() bool { return f.Word == "" && !f.Quoted }

// Head returns the first word of a list, or "".
func (f *Form) Head() string {
	if len(f.List) == 0 {
		return ""
	}
	return f.List[0].Word
}

func (f *Form) String() string {
	if f.Quoted {
		return `"` + f.Word + `"`
	}
	if !f.IsList() {
		return f.Word
	}
	parts := make([]string, len(f.List))
	for i, x := range f.List {
		parts[i] = x.String()
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// ReadForms reads all forms of a text. A semicolon begins a comment.
func ReadForms(file, text string) ([]*Form, error) {
	line := 1
	stack := []*Form{{Pos: Pos{file, 1}}}
	for i := 0; i < len(text); {
		here, top := Pos{file, line}, stack[len(stack)-1]
		switch c := text[i]; {
		case c == '\n':
			line++
			i++
		case unicode.IsSpace(rune(c)):
			i++
		case c == ';':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '(':
			stack = append(stack, &Form{Pos: here})
			i++
		case c == ')':
			if len(stack) == 1 {
				return nil, &Error{here, "a parenthesis is closed that was not opened"}
			}
			stack = stack[:len(stack)-1]
			outer := stack[len(stack)-1]
			outer.List = append(outer.List, top)
			i++
		case c == '"':
			end := strings.IndexAny(text[i+1:], "\"\n")
			if end < 0 || text[i+1+end] == '\n' {
				return nil, &Error{here, "a text does not end on its line"}
			}
			top.List = append(top.List, &Form{Pos: here, Word: text[i+1 : i+1+end], Quoted: true})
			i += end + 2
		default:
			end := i
			for end < len(text) && !unicode.IsSpace(rune(text[end])) && !strings.ContainsRune("();\"", rune(text[end])) {
				end++
			}
			top.List = append(top.List, &Form{Pos: here, Word: text[i:end]})
			i = end
		}
	}
	if len(stack) > 1 {
		return nil, &Error{stack[len(stack)-1].Pos, "the parenthesis that is opened here is never closed"}
	}
	return stack[0].List, nil
}

// Replace returns a form in which every part that reads like old is replaced by the forms of by,
// and how many there were.
func (f *Form) Replace(old *Form, by []*Form) (*Form, int) {
	if !f.IsList() {
		return f, 0
	}
	count, text := 0, old.String()
	out := &Form{Pos: f.Pos}
	for _, x := range f.List {
		if x.String() == text {
			out.List = append(out.List, by...)
			count++
			continue
		}
		y, n := x.Replace(old, by)
		out.List = append(out.List, y)
		count += n
	}
	return out, count
}
