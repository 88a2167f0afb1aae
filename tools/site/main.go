// Command site makes a static site of the documents, in the order of docs/README.md:
// MkDocs makes the pages, with a search. The Markdown is copied beside the
// pages, for programs that read it, with llms.txt, which lists it.
//
//	go run ./tools/site -out bin/site
//	go run ./tools/site -llms llms.txt
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "the repository's folder")
	out := flag.String("out", "", "write the site into this folder, which is emptied first")
	repository := flag.String("repository", "https://github.com/fenlock/fenlock",
		"where links to source files lead, in the form of GitHub")
	llms := flag.String("llms", "", "write llms.txt to this file")
	flag.Parse()
	if flag.NArg() > 0 || *out == "" && *llms == "" {
		flag.Usage()
		os.Exit(64)
	}
	if err := run(*root, *out, *repository, *llms); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(root, out, repository, llms string) error {
	if llms != "" {
		text, err := llmsText(root)
		if err != nil {
			return err
		}
		if err := os.WriteFile(llms, text, 0o644); err != nil {
			return err
		}
	}
	if out == "" {
		return nil
	}
	s, err := load(root, repository)
	if err != nil {
		return err
	}
	return s.build(out)
}
