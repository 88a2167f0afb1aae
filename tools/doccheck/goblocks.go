package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// checkGo compiles the Go blocks that are whole files, and looks for the others in the
// Go files that the document links to.
func (c *checker) checkGo(d *docs.Document) error {
	var linked strings.Builder
	for _, link := range d.Links() {
		file, _, ok := docs.Local(d.Path, link.Target)
		if !ok || !strings.HasSuffix(file, ".go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(file)))
		if err != nil {
			continue // checkLinks says so
		}
		linked.Write(source)
	}
	for _, block := range d.Blocks() {
		if block.Language != "go" {
			continue
		}
		c.blocks++
		if !strings.HasPrefix(block.Text, "package ") {
			if !strings.Contains(linked.String(), block.Text) {
				c.wrong(d, block.Line, "the Go block is in no Go file that the document links to")
			}
			continue
		}
		out, err := c.compile(block.Text)
		if err != nil {
			return err
		}
		if out != "" {
			c.wrong(d, block.Line, "the Go block does not compile:\n%s", out)
		}
	}
	return nil
}

// compile says what is wrong with a whole file. It is compiled where the command is,
// whose module has the libraries that the documents use.
func (c *checker) compile(source string) (complaint string, err error) {
	folder, err := os.MkdirTemp("", "doccheck")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "main.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return "", err
	}
	vet := exec.Command("go", "vet", file)
	vet.Dir = filepath.Join(c.root, "cmd", "fenlock")
	out, err := vet.CombinedOutput()
	if err == nil {
		return "", nil
	}
	return string(out) + err.Error(), nil
}
