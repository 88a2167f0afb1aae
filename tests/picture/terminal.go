//go:build linux

package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// columns is the width of the terminals.
const columns = 72

// terminal is a shell on a terminal of its own.
type terminal struct {
	process *exec.Cmd
	in      io.WriteCloser

	mu    sync.Mutex
	began time.Time
	lines []row // what is shown; the last one may grow
}

// row is one line of a terminal: what it showed, and from when on.
type row []version

type version struct {
	at   time.Duration
	text string
}

func (r row) last() string {
	if len(r) == 0 {
		return ""
	}
	return r[len(r)-1].text
}

// open starts a shell. script, of util-linux, makes the terminal.
func open(folder string, environment []string) (*terminal, error) {
	t := &terminal{process: exec.Command("script", "-qfc", "bash --norc --noprofile -i", "/dev/null")}
	t.process.Dir, t.process.Env = folder, environment
	var err error
	if t.in, err = t.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := t.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := out.Read(buffer)
			t.show(string(buffer[:n]))
			if err != nil {
				return
			}
		}
	}()
	return t, t.enter(fmt.Sprintf("PS1='$ '; stty cols %d", columns), `\n\$ $`)
}

func (t *terminal) close() {
	_ = t.in.Close()
	_ = t.process.Process.Kill()
	_ = t.process.Wait()
}

// begin forgets what was before, but for the prompt.
func (t *terminal) begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.lines = now, []row{{{0, "$ "}}}
}

// show appends what the shell and its commands write.
func (t *terminal) show(written string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Since(t.began)
	for i, text := range strings.Split(strings.ReplaceAll(written, "\r", ""), "\n") {
		if i > 0 || len(t.lines) == 0 {
			t.lines = append(t.lines, nil)
		}
		if text != "" {
			last := &t.lines[len(t.lines)-1]
			*last = append(*last, version{at, last.last() + text})
		}
	}
}

// text returns what the terminal shows.
func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, r := range t.lines {
		all = append(all, r.last())
	}
	return strings.Join(all, "\n")
}

// enter types a line and waits until what follows matches.
func (t *terminal) enter(line, until string) error {
	if _, err := io.WriteString(t.in, line+"\n"); err != nil {
		return err
	}
	return t.wait(`(?s)` + regexp.QuoteMeta(line) + `.*\n.*` + until)
}

// wait waits until the text matches. A minute is for what hangs.
func (t *terminal) wait(until string) error {
	pattern := regexp.MustCompile(until)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if pattern.MatchString(t.text()) {
			return nil
		}
	}
	return fmt.Errorf("the terminal does not show %q, but\n%s", until, t.text())
}

// rows returns what was shown, in lines as wide as the terminal.
func (t *terminal) rows() []row {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []row
	for i, r := range t.lines {
		if i == len(t.lines)-1 && len(r) == 0 {
			break
		}
		for {
			var head, rest row
			for _, v := range r {
				runes := []rune(v.text)
				if len(runes) > columns {
					rest = append(rest, version{v.at, string(runes[columns:])})
					runes = runes[:columns]
				}
				if head.last() != string(runes) {
					head = append(head, version{v.at, string(runes)})
				}
			}
			all = append(all, head)
			if r = rest; len(r) == 0 {
				break
			}
		}
	}
	return all
}
