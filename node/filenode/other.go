//go:build !linux && !darwin && !freebsd

package filenode

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenlock/fenlock/node"
)

// Node is a node in a file. There is none on this system.
type Node struct{ node.Node }

// Open returns an error that matches errors.ErrUnsupported.
func Open(string) (*Node, error) { return OpenFile("") }

// OpenContext returns an error that matches errors.ErrUnsupported.
func OpenContext(context.Context, string) (*Node, error) { return OpenFile("") }

// OpenFileContext returns an error that matches errors.ErrUnsupported.
func OpenFileContext(context.Context, string) (*Node, error) { return OpenFile("") }

// OpenFile returns an error that matches errors.ErrUnsupported.
func OpenFile(string) (*Node, error) {
	return nil, fmt.Errorf("fenlock: a file locks nothing on this system: %w", errors.ErrUnsupported)
}
