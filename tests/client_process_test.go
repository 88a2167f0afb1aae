package tests

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// client is a process of its own that holds a lock, so that it can be stopped
// and killed.
type client struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.Writer
	output *bufio.Scanner
}

const clientVariable = "FENLOCK_TEST_CLIENT"

// startClient runs this test binary as a client. It acquires the first name, prints "token N",
// waits for a line, releases, and prints "released" or the error. If "then" and a second name are
// given, it waits for a line and tries to acquire that.
func startClient(t *testing.T, urls []string, arguments ...string) *client {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMain$")
	cmd.Env = append(os.Environ(), clientVariable+"="+strings.Join(urls, ","),
		"FENLOCK_TEST_ARGUMENTS="+strings.Join(arguments, ","))
	input, output := startProcess(t, cmd)
	return &client{t: t, cmd: cmd, input: input, output: output}
}

// startProcess starts a command that is spoken to line by line, and ends it with
// the test.
func startProcess(t *testing.T, cmd *exec.Cmd) (input io.Writer, output *bufio.Scanner) {
	t.Helper()
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return input, bufio.NewScanner(stdout)
}

func (c *client) line() string {
	c.t.Helper()
	if !c.output.Scan() {
		c.t.Fatalf("the client ended: %v", c.output.Err())
	}
	return c.output.Text()
}

func (c *client) token() fence.Token {
	c.t.Helper()
	text := c.line()
	token, err := fence.Parse(strings.TrimPrefix(text, "token "))
	if err != nil {
		c.t.Fatalf("%q: %v", text, err)
	}
	return token
}

// goOn lets the client do the next thing: release, or acquire the second name.
func (c *client) goOn() { c.input.Write([]byte("\n")) }

// stop stops the process and waits until it has: a signal is delivered later
// than it is sent.
func (c *client) stop() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	if _, err := syscall.Wait4(c.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	if nodes := os.Getenv(clientVariable); nodes != "" {
		if err := runClient(strings.Split(nodes, ","), strings.Split(os.Getenv("FENLOCK_TEST_ARGUMENTS"), ",")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	// Most tests wait, so that more of them can run at once than there are cores.
	flag.Parse()
	flag.Set("test.parallel", "6")
	// All clients of the servers, other libraries too, may do what nodes need, and nothing else.
	// The prefix of some is "", so that this is about any key.
	rules, err := valkeynode.Permissions("")
	if err != nil {
		panic(err)
	}
	testserver.Restrict(rules...)
	os.Exit(m.Run())
}

// runClient is what the process of startClient does.
func runClient(urls, arguments []string) error {
	if arguments[0] == exports {
		return runExporter(urls)
	}
	config, err := newConfig(urls)
	if err != nil {
		return err
	}
	l, err := fenlock.New(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, arguments[0])
	if err != nil {
		return err
	}
	fmt.Println("token", lock.Token())
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	if err := lock.Release(ctx); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("released")
	}
	if len(arguments) < 3 {
		return nil
	}
	input.Scan()
	if lock, err = l.TryAcquire(ctx, arguments[2]); err != nil {
		return err
	}
	fmt.Println("token", lock.Token())
	input.Scan()
	return nil
}
