// Command doccheck checks the Markdown documents below a folder: each Go block
// that is a whole file must compile, each other Go block must be a piece of a Go file
// that its document links to, word for word, so that it is compiled and run as that
// is, and each relative link must lead to a file.
//
// Run it inside the module whose dependencies the examples need.
package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: doccheck FOLDER")
		os.Exit(64)
	}
	problems, blocks, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "doccheck:", err)
		os.Exit(1)
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if blocks == 0 {
		fmt.Fprintln(os.Stderr, "doccheck: no Go block found: is this the right folder?")
	}
	if len(problems) > 0 || blocks == 0 {
		os.Exit(1)
	}
	fmt.Printf("doccheck: %d Go blocks compile, or are pieces of what does\n", blocks)
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// check returns what is wrong, and how many blocks were compiled.
func check(root string) (problems []string, blocks int, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == ".cache"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".md"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var linked strings.Builder // all Go files that the document links to
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			file := filepath.Join(filepath.Dir(path), m[1])
			if _, err := os.Stat(file); err != nil {
				problems = append(problems, fmt.Sprintf("%s: the link to %s leads nowhere", path, m[1]))
			} else if strings.HasSuffix(file, ".go") {
				source, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				linked.Write(source)
			}
		}
		for line, block := range goBlocks(string(text)) {
			blocks++
			if !strings.HasPrefix(block, "package ") {
				if !strings.Contains(linked.String(), block) {
					problems = append(problems, fmt.Sprintf("%s:%d: the Go block is in no Go file that the document links to", path, line))
				}
				continue
			}
			if out, err := compile(block); err != nil {
				problems = append(problems, fmt.Sprintf("%s:%d: the Go block does not compile:\n%s", path, line, out))
			}
		}
		return nil
	})
	return problems, blocks, err
}

// goBlocks returns the Go blocks by line number.
func goBlocks(text string) map[int]string {
	blocks := make(map[int]string)
	var block *strings.Builder
	start := 0
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case block == nil && line == "```go":
			block, start = new(strings.Builder), n
		case block != nil && line == "```":
			blocks[start] = block.String()
			block = nil
		case block != nil:
			block.WriteString(line + "\n")
		}
	}
	return blocks
}

func compile(source string) (output string, err error) {
	folder, err := os.MkdirTemp("", "doccheck")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "main.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "vet", file).CombinedOutput()
	return string(out), err
}
