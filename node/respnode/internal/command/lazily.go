package command

import (
	"regexp"
	"sync"
)

// lazily compiles an expression when it is first asked for: a program that has this engine
// may use another.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
