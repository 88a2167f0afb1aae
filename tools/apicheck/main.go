// Command apicheck checks the documentation of the public packages of all modules. Each has an
// overview and an example, and each exported identifier has a comment, methods and constants too.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apicheck FOLDER")
		os.Exit(64)
	}
	problems, packages, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "apicheck:", err)
		os.Exit(1)
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	fmt.Printf("apicheck: %d public packages have an overview, examples and comments\n", packages)
}
