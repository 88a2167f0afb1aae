//go:build !unix

package sqlnode

import (
	"errors"
	"fmt"
	"os"
)

// Without named pipes that a process takes with it when it ends, nobody can be
// told here: see pipe_unix.go.
type pipe struct{}

func (p *pipe) tell()  {}
func (p *pipe) close() {}

// resolve leaves links alone: only pipes are looked for beside the file.
func resolve(path string) (string, error) { return path, nil }

// links cannot tell how many names a file has.
func links(os.FileInfo) uint64 { return 1 }

func (n *Node) reach(string) *pipe { return nil }

func (n *Node) pipeOf(string) string { return "" }

func (n *Node) makePipe(string) (*os.File, error) {
	return nil, fmt.Errorf("waiters cannot be notified on this system, so they poll: %w", errors.ErrUnsupported)
}

func isPermanent(error) bool { return false }
