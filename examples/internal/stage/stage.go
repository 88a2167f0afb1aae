// Package stage is what the examples have in common: where their locks are, and processes that play
// machines. An example runs itself again for each machine, so that each can be killed and stopped.
package stage

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/filenode"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// TTL is how long a lock outlives its holder in the examples. A short time keeps the examples
// short.
const TTL = 2 * time.Second

const (
	machineVariable = "FENLOCK_EXAMPLE_MACHINE"
	folderVariable  = "FENLOCK_EXAMPLE_FOLDER"
)

// Without is the flag -without: the example is played without what it is about, to see what goes
// wrong.
var Without bool

// Folder is the example's own, in which its machines share files. It is removed at the end.
var Folder string

// Main runs an example: play, and in processes that it starts, machine. It does not return: the
// status is 1 if play returns an error, which is that the example did not show what it should have.
func Main(play func(ctx context.Context) error, machine func(ctx context.Context, name string) error) {
	flag.BoolVar(&Without, "without", false, "play it without the lock or the guard")
	flag.Parse()
	log.SetFlags(0)
	if name := os.Getenv(machineVariable); name != "" {
		Folder = os.Getenv(folderVariable)
		if err := machine(context.Background(), name); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		os.Exit(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	status := 0
	if err := inFolder(func() error { return play(ctx) }); err != nil {
		fmt.Println("FAILED:", err)
		status = 1
	}
	cancel()
	stop()
	os.Exit(status)
}

func inFolder(play func() error) (err error) {
	if Folder, err = os.MkdirTemp("", "fenlock-example-"); err != nil {
		return err
	}
	defer os.RemoveAll(Folder)
	return play()
}

// Locker returns a process's locks: on the servers in FENLOCK_NODES, separated by commas, or, if
// there are none, in a file in Folder. A program that exits need not close it.
func Locker(label string) (*fenlock.Locker, error) {
	// a file needs none: on a busy machine its answer may come late
	config := fenlock.Config{TTL: TTL, NodeTimeout: TTL / 4, Label: label}
	urls := "file://" + filepath.Join(Folder, "locks")
	if given := os.Getenv("FENLOCK_NODES"); given != "" {
		urls = given
	}
	for url := range strings.SplitSeq(urls, ",") {
		node, err := open(url)
		if err != nil {
			return nil, err
		}
		config.Nodes = append(config.Nodes, node)
	}
	return fenlock.New(config)
}

func open(url string) (fenlock.Node, error) {
	if strings.HasPrefix(url, "file:") {
		return filenode.Open(url)
	}
	return valkeynode.Open(url)
}

// Machine is a process that plays one.
type Machine struct {
	*exec.Cmd
	heard *bufio.Scanner
}

// Start starts a machine. It is killed when ctx ends. What it prints is printed, line by line.
func Start(ctx context.Context, name string, environment ...string) (*Machine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &Machine{Cmd: exec.CommandContext(ctx, self, os.Args[1:]...)}
	m.Env = append(append(os.Environ(), machineVariable+"="+name, folderVariable+"="+Folder), environment...)
	m.Stderr = os.Stderr
	stdout, err := m.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.heard = bufio.NewScanner(stdout)
	return m, m.Cmd.Start()
}

// Hear prints what the machine says, until it has said a line with this text in it.
func (m *Machine) Hear(text string) error {
	for m.heard.Scan() {
		fmt.Println(m.heard.Text())
		if strings.Contains(m.heard.Text(), text) {
			return nil
		}
	}
	return fmt.Errorf("%s ended, and did not say %q", m.Path, text)
}

// Wait prints the rest of what the machine says, and returns how it ended.
func (m *Machine) Wait() error {
	for m.heard.Scan() {
		fmt.Println(m.heard.Text())
	}
	return m.Cmd.Wait()
}

// Stop stops the machine as a long pause does, and Continue has it go on.
func (m *Machine) Stop() error     { return m.Process.Signal(syscall.SIGSTOP) }
func (m *Machine) Continue() error { return m.Process.Signal(syscall.SIGCONT) }

// All starts machines and waits until all of them have ended.
func All(ctx context.Context, names []string, environment ...func(i int) string) error {
	var machines []*Machine
	for i, name := range names {
		var more []string
		for _, e := range environment {
			more = append(more, e(i))
		}
		m, err := Start(ctx, name, more...)
		if err != nil {
			return err
		}
		machines = append(machines, m)
	}
	ended := make(chan error, len(machines))
	for _, m := range machines {
		go func() { ended <- m.Wait() }()
	}
	var failed error
	for range machines {
		if err := <-ended; err != nil {
			failed = err
		}
	}
	return failed
}

// Say prints a line at once, in one piece.
func Say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// Append adds a line to a file in Folder.
func Append(file, line string) error {
	f, err := os.OpenFile(filepath.Join(Folder, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.WriteString(f, line+"\n")
	return err
}

// Lines returns the lines of a file in Folder, none if there is no such file.
func Lines(file string) []string {
	text, _ := os.ReadFile(filepath.Join(Folder, file))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
