//go:build linux

package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// recording is what the terminals showed.
type recording struct {
	panes [][]row
	lasts time.Duration
}

// Measures in pixels: of a character, a line, the frame around a terminal and its title.
const (
	charWidth  = 8.43
	lineHeight = 19
	frame      = 12
	titleBar   = 24
)

const style = `
text { font: 14px ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6dee6; white-space: pre }
.title { fill: #9aa7b4; font-size: 12px }
.typed { fill: #fff; font-weight: bold }
.t0 { fill: #f0b35a }
.t1 { fill: #6fd08c }
.gone { visibility: hidden }
`

var tokens = regexp.MustCompile(`\b[0-9]{16}\b`)

// svg draws the recording as a picture that moves and begins again. It needs no script, and shows
// how it ended where nothing is to move.
func (r recording) svg() []byte {
	var body, moves bytes.Buffer
	token := make(map[string]string) // the class of each
	width := columns*charWidth + 2*frame
	y, n := 0.0, 0
	for i, pane := range r.panes {
		height := float64(titleBar + len(pane)*lineHeight + frame)
		fmt.Fprintf(&body, `<rect x="0.5" y="%g" width="%g" height="%g" rx="6" fill="#151b23" stroke="#4b5661"/>`+"\n", y+0.5,
			width-1, height-1)
		fmt.Fprintf(&body, `<text class="title" x="%d" y="%g">terminal %d</text>`+"\n", frame, y+17, i+1)
		for line, versions := range pane {
			for k, v := range versions {
				to, class := r.lasts, ""
				if k+1 < len(versions) {
					to, class = versions[k+1].at, " gone"
				}
				if strings.HasPrefix(v.text, "$ ") {
					class += " typed"
				}
				fmt.Fprintf(&body, `<text class="m%d%s" x="%d" y="%g" textLength="%.0f">%s</text>`+"\n",
					n, class, frame, y+titleBar+float64(line*lineHeight)+14, charWidth*float64(len([]rune(v.text))),
					marked(v.text, token))
				fmt.Fprintf(&moves, "@keyframes k%[1]d { 0%% { visibility: hidden } %[2]s { visibility: visible } %[3]s { visibility: hidden } }\n.m%[1]d { animation: k%[1]d %.2[4]fs step-end infinite }\n",
					n, r.share(v.at), r.share(to), r.lasts.Seconds())
				n++
			}
		}
		y += height + 8
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">`+
		"\n", width, y-8, width, y-8)
	out.WriteString("<title>A holder is killed, and the waiter gets the lock with a larger token</title>\n")
	fmt.Fprintf(&out, "<style>%s@media (prefers-reduced-motion: no-preference) {\n%s}\n</style>\n%s</svg>\n", style,
		moves.String(), body.String())
	return out.Bytes()
}

// share returns a time as a part of the whole, and never none of it: that is the beginning's.
func (r recording) share(at time.Duration) string {
	return fmt.Sprintf("%.2f%%", max(0.01, 100*float64(at)/float64(r.lasts)))
}

// marked escapes a text and colours the tokens in it, each with its own colour.
func marked(text string, class map[string]string) string {
	var escaped bytes.Buffer
	_ = xml.EscapeText(&escaped, []byte(text)) // a buffer does not fail
	return tokens.ReplaceAllStringFunc(escaped.String(), func(token string) string {
		if class[token] == "" {
			class[token] = fmt.Sprint("t", len(class))
		}
		return `<tspan class="` + class[token] + `">` + token + `</tspan>`
	})
}
