// Check checks histories of lock clients on real servers again:
//
//	go run ./history/check FILE...
//
// It prints a report for each file. The exit status is 1 if a promise was broken
// or a file cannot be read.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/fenlock/fenlock/tests/history"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(files []string, stdout, stderr io.Writer) (status int) {
	if len(files) == 0 {
		fmt.Fprintln(stderr, "usage: go run ./history/check FILE...")
		return 64
	}
	for _, file := range files {
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
	}
	return status
}
