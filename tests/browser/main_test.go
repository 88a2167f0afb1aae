// Package browser_test has the tests of "fenlock ui" in a real browser. On real servers, with the
// command as it is built, it is looked at as a person would.
package browser_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/fenlock/fenlock/internal/testserver"
)

// What all tests share: to start a browser takes a second or two, and to build the
// command longer.
var (
	command string          // path of the program fenlock
	browser context.Context // has the browser; each test opens windows of its own in it
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "fenlock-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if command, err = testserver.BuildFenlock(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Fprintln(os.Stderr, "there is no chromium: make setup installs it")
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(filepath.Join(folder, "profile")),
		chromedp.NoSandbox, // which root cannot have
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true),
		// A site that has a name of its own lead to this machine.
		chromedp.Flag("host-resolver-rules", "MAP elsewhere.example 127.0.0.1"),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	var end context.CancelFunc
	browser, end = chromedp.NewContext(ctx)
	defer end()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "chromium:", err)
		return 1
	}
	return m.Run()
}
