package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// run runs a command in a folder and returns what it printed, without the last newline.
// What env has comes after this process's environment.
func run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// Neither a caller that is a git hook, nor the locks of whoever calls.
	for _, v := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "FENLOCK_NODES"} {
		cmd.Env = without(cmd.Env, v)
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, said.String(), out.String())
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

func without(env []string, variable string) []string {
	var left []string
	for _, e := range env {
		if !strings.HasPrefix(e, variable+"=") {
			left = append(left, e)
		}
	}
	return left
}

// step runs one step and says how long it took, since CI's time is short.
func step(name string, f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%5.1fs  %s\n", time.Since(began).Seconds(), name)
	return nil
}

// lines splits what a command printed.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
