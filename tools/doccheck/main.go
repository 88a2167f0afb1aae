// Command doccheck checks the Markdown documents below the repository's root:
//
//   - each link to a file or an anchor leads there;
//   - docs/README.md lists all documents;
//   - each Go block that is a whole file compiles; each other one is a piece of a
//     Go file that its document links to, word for word, and so is compiled and run;
//   - the command lines in code blocks and in backticks can be run. fenlock itself checks its
//     subcommands and flags; make's targets, packages and tests of go exist;
//   - tests named in backticks exist;
//   - sentences are in plain English (prose.go).
//
// It checks the comments of Go files in the same way, and the width of their lines (comments.go).
// In comments of Lua, SQL, shell, YAML and so on it finds only phrases that name no subject.
package main

import (
	"fmt"
	"os"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: doccheck FOLDER")
		os.Exit(64)
	}
	c := &checker{root: os.Args[1], found: make(map[string]*docs.Document)}
	if err := c.check(); err != nil {
		fmt.Fprintln(os.Stderr, "doccheck:", err)
		os.Exit(1)
	}
	for _, p := range c.problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(c.problems) > 0 {
		os.Exit(1)
	}
	fmt.Printf("doccheck: %d links, %d Go blocks, %d command lines, %d names of tests and %d sentences are right\n",
		c.links, c.blocks, c.commands, c.names, c.sentences)
}

func (c *checker) check() error {
	all, err := docs.All(c.root)
	if err != nil {
		return err
	}
	if _, err := docs.ReadContents(c.root); err != nil {
		c.problems = append(c.problems, err.Error())
	}
	for _, d := range all {
		c.found[d.Path] = d
	}
	lines, err := newLines(c.root)
	if err != nil {
		return err
	}
	defer lines.close()
	for _, d := range all {
		c.checkLinks(d)
		if err := c.checkGo(d); err != nil {
			return err
		}
		c.checkLines(d, lines)
		c.checkProse(d)
	}
	if err := c.checkComments(); err != nil {
		return err
	}
	// It has the text of doc.go, whose lines are as long as they come.
	llms, err := docs.Read(c.root, "llms.txt")
	if err != nil {
		return err
	}
	c.checkSentences(llms)
	// A checker that finds nothing to check looks at the wrong folder, or is broken.
	if c.links == 0 || c.blocks == 0 || c.commands == 0 || c.names == 0 || c.sentences == 0 {
		return fmt.Errorf(
			"%d links, %d Go blocks, %d command lines, %d names of tests, %d sentences found: is this the right folder?",
			c.links, c.blocks, c.commands, c.names, c.sentences)
	}
	return nil
}
