// Check checks histories of lock clients on real servers again:
//
//	go run ./history/check FILE...
//	go run ./history/check -edn OUT FILE
//
// It prints a report for each file. The exit status is 1 if a promise was broken
// or a file cannot be read. With -edn it also writes the history to OUT, as Jepsen's
// checkers read it: see tests/README.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/fenlock/fenlock/tests/history"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) (status int) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	edn := flags.String("edn", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 || *edn != "" && flags.NArg() > 1 {
		fmt.Fprintln(stderr, "usage: go run ./history/check FILE...\n       go run ./history/check -edn OUT FILE")
		return 64
	}
	for _, file := range flags.Args() {
		h, err := history.Read(file)
		if err != nil {
			fmt.Fprintln(stderr, "cannot check", err)
			status = 1
			continue
		}
		report := history.Check(h)
		fmt.Fprintf(stdout, "%s: %v", file, report)
		if len(report.Violations) > 0 {
			status = 1
		}
		if *edn == "" {
			continue
		}
		if err := h.WriteEDN(*edn); err != nil {
			fmt.Fprintf(stderr, "cannot write %s: %v\n", *edn, err)
			status = 1
		}
	}
	return status
}
