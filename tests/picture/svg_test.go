//go:build linux

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// wellFormed reads a picture to its end, and fails at what asks for something else.
func wellFormed(t *testing.T, picture []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			for _, a := range start.Attr {
				if start.Name.Local == "script" || a.Name.Local == "href" {
					t.Errorf("there is <%s %s=%q>", start.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestPicture(t *testing.T) {
	shell := &terminal{}
	shell.begin(time.Now())
	shell.show("fenlock <ls>\r\n1795732748063464\r\n" + strings.Repeat("x", columns+3))
	shell.show("\r\n")
	rows := shell.rows()
	if len(rows) != 4 {
		t.Fatalf("%d lines: %v", len(rows), rows)
	}
	for i, want := range []string{"$ fenlock <ls>", "1795732748063464", strings.Repeat("x", columns), "xxx"} {
		if got := rows[i].last(); got != want {
			t.Errorf("line %d is %q, not %q", i, got, want)
		}
	}
	// The prompt is seen from 0 to 5 s, the line in its place from then on.
	rows[0][1].at = 5 * time.Second
	picture := recording{panes: [][]row{rows}, lasts: 20 * time.Second}.svg()
	wellFormed(t, picture)
	for _, want := range []string{
		"@keyframes k0 { 0% { visibility: hidden } 0.01% { visibility: visible } 25.00% { visibility: hidden } }",
		"@keyframes k1 { 0% { visibility: hidden } 25.00% { visibility: visible } 100.00% { visibility: hidden } }",
		".m1 { animation: k1 20.00s step-end infinite }",
		`<text class="m0 gone typed"`, `<text class="m1 typed"`,
		"$ fenlock &lt;ls&gt;</text>", `<tspan class="t0">1795732748063464</tspan>`,
	} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("there is no %s in\n%s", want, picture)
		}
	}
}

// The picture in the README is one that the program has made, and loads at once.
func TestPictureOfReadme(t *testing.T) {
	picture, err := os.ReadFile("../../docs/run.svg")
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, picture)
	if len(picture) > 200_000 {
		t.Errorf("it has %d bytes", len(picture))
	}
	var growing []string
	for _, m := range regexp.MustCompile(`<tspan class="t\d">(\d+)<`).FindAllStringSubmatch(string(picture), -1) {
		if len(growing) == 0 || growing[len(growing)-1] < m[1] {
			growing = append(growing, m[1])
		}
	}
	if len(growing) != 2 || !strings.Contains(string(picture), ">Killed<") {
		t.Errorf("no holder is killed, or its successor has no larger token: %q", growing)
	}
}
