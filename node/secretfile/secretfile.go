// Package secretfile reads files with secrets in them, for engines and programs that
// find passwords there, and refuses those that others may read.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// MaxSize is the size of the longest file that is read, in bytes.
const MaxSize = 64 << 10

// Read returns what is in a file. Its owner is the user of this process or root. No other user may
// read, write or execute it. The exception is the group of a file of root's, which may read it:
// what systemd and Kubernetes hand to a program looks like that. On Windows, which has no such
// bits, this is not looked at.
//
// The error has the path and says what to do. It never has a word of the file.
func Read(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("the file's name is empty")
	}
	f, err := open(path)
	if err != nil {
		return nil, plainly(path, err)
	}
	defer f.Close()
	// Of the file that was opened: the name may lead elsewhere by now.
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, plainly(path, err)
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		// A pipe could be read once only, and its reader may have to wait.
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := check(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	switch {
	case err != nil:
		return nil, plainly(path, err)
	case len(text) > MaxSize:
		return nil, fmt.Errorf("%s is longer than %d bytes", path, MaxSize)
	}
	return text, nil
}

// ReadPassword returns the one line that a file has, without its end. What Read refuses
// is refused, and so is a file without a line, or with several.
func ReadPassword(path string) (string, error) {
	text, err := Read(path)
	if err != nil {
		return "", err
	}
	line := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(line) == 0:
		return "", fmt.Errorf("%s is empty: its first and only line is the password", path)
	case bytes.ContainsAny(line, "\r\n\x00"):
		return "", fmt.Errorf("%s has more than one line: its first and only line is the password", path)
	}
	return string(line), nil
}

// plainly names the file once, and no system call.
func plainly(path string, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist", path)
	}
	return fmt.Errorf("%s cannot be read: %w", path, err)
}
