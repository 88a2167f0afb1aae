// Command draw makes the drawings of the documents: from each FILE.seq below a folder,
// a sequence of messages in words, FILE.svg beside it. With --check it writes nothing,
// and fails if a drawing is not what its words say.
//
//	go run ./draw ../docs/drawings
//
// The words, one on a line, time going down:
//
//	title: what it shows, for those who do not see it
//	lanes: client 1 | server | resource
//	client 1 -> server: a message
//	server -x client 1: one that is lost
//	client 1 => resource: one that is refused
//	client 1: a note / on two lines
//	& server: a note at the same height as the last
//	client 1 holds            from here on: holds, believes, paused, leased, or ends
//	---: a line across, with a heading
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	args, check := os.Args[1:], false
	if len(args) > 0 && args[0] == "--check" {
		args, check = args[1:], true
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: draw [--check] FOLDER")
		os.Exit(64)
	}
	if err := run(args[0], check); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func run(folder string, check bool) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.seq"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no .seq file: is it the right folder?", folder)
	}
	for _, file := range files {
		words, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		sequence, err := parse(string(words))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		drawing, target := sequence.svg(), strings.TrimSuffix(file, ".seq")+".svg"
		if !check {
			if err := os.WriteFile(target, drawing, 0o644); err != nil {
				return err
			}
			continue
		}
		// A drawing that is missing is as wrong as one that is old.
		if have, _ := os.ReadFile(target); !bytes.Equal(have, drawing) {
			return fmt.Errorf("%s is not what %s says: run make fix-drawings", target, file)
		}
	}
	return nil
}
