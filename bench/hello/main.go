// Command hello is the least that a program in Go can be: what starts, prints a line and ends.
package main

import "fmt"

func main() { fmt.Println("hello, world") }
