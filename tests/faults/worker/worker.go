//go:build linux

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/history"
)

// variable marks a process as a client: it holds a Config as JSON.
const variable = "FENLOCK_FAULTS_WORKER"

// Config is what a client process is told when it starts. Group sets Client, Log, URLs
// and Label.
type Config struct {
	library.Config
	Client   int    // its number in the history
	Locks    string // what they are used for: library.Locks
	Names    []string
	Resource string // its URL
	Log      string // file for its events
	Seed     uint64
	// Reckless clients write on for a while when their lock has ended, as a
	// paused process would. That is for the guard to stop.
	Reckless bool
	Life     time.Duration // after which it ends by itself
	Shortest time.Duration // that a lock is held
	Longest  time.Duration
	Watched  bool // note what the nodes missed, and when this process was absent
	Traffic  bool // take other names of the same registers all the time
}

// What the runner says to a client process, a line each. At the end of the
// input the process ends.
const (
	sayRest  = "rest"    // let go of everything at once, say so, and wait; a number follows, for the answer
	sayGo    = "go"      // go on
	sayQuiet = "quiet"   // nothing fails any more: acquire every name once, and end
	resting  = "resting" // and the number
)

// Main is the whole life of a client process, and returns at once if this process is
// none. A program that starts a Group calls it before everything else. The exit code is 0
// only if the client was told that it is quiet, and came to its end.
func Main() {
	if text := os.Getenv(variable); text != "" {
		os.Exit(run(text))
	}
}

func run(text string) int {
	var config Config
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		fmt.Fprintln(os.Stderr, variable+":", err)
		return 2
	}
	time.AfterFunc(config.Life, func() {
		fmt.Fprintln(os.Stderr, "the client has not come to its end within", config.Life)
		os.Exit(4)
	})
	log, err := openLog(config.Log)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	orders := listen(os.Stdin)
	if config.Watched {
		config.Missed = func(n int) {
			log.write(history.Event{Kind: history.Missed, Client: config.Client, Node: n + 1})
		}
		go watchAbsence(config.Client, config.TTL, log)
	}
	before := runtime.NumGoroutine()
	l, err := library.Open(config.Config)
	for errors.Is(err, syscall.ENOSPC) { // the file was deleted, and its disk is full
		time.Sleep(10 * time.Millisecond)
		l, err = library.Open(config.Config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	u, use := newUser(config, l, log), uses[config.Locks]
	busy, calm := context.WithCancel(context.Background())
	defer calm()
	var others sync.WaitGroup
	if config.Traffic {
		others.Go(func() { traffic(busy, l, config.Names) })
	}
	if use.beside != nil {
		others.Go(func() { use.beside(u, busy) })
	}
	for quiet := false; !quiet; {
		order, ctx := orders.last()
		mode, number, _ := strings.Cut(order, " ")
		switch mode {
		case sayGo:
			use.round(u, ctx)
		case sayRest:
			fmt.Println(resting, number)
			<-ctx.Done()
		case sayQuiet:
			calm()
			others.Wait()
			use.last(u)
			quiet = true
		}
	}
	u.resource.Close()
	if err := l.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
	}
	left, stacks := leftGoroutines(before)
	log.write(history.Event{Kind: history.Closed, Client: config.Client, Value: left, Text: stacks})
	return 0
}

// leftGoroutines waits until no more goroutines run than before, for five
// seconds at most, and returns how many are left and what they do.
func leftGoroutines(before int) (n int, stacks string) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return 0, ""
		}
	}
	text := make([]byte, 8<<10)
	return runtime.NumGoroutine() - before, string(text[:runtime.Stack(text, true)])
}

// orders are what the runner said last.
type orders struct {
	mu     sync.Mutex
	now    string
	ctx    context.Context // ends when something else is said
	cancel context.CancelFunc
}

var errEndOfInput = errors.New("the input has ended")

func listen(input io.Reader) *orders {
	o := &orders{}
	o.set(sayGo)
	go func() {
		lines := bufio.NewScanner(input)
		for lines.Scan() {
			o.set(lines.Text())
		}
		fmt.Fprintln(os.Stderr, errEndOfInput) // the runner is gone
		os.Exit(3)
	}()
	return o
}

func (o *orders) set(order string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cancel != nil {
		o.cancel()
	}
	o.now = order
	o.ctx, o.cancel = context.WithCancel(context.Background())
}

func (o *orders) last() (string, context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now, o.ctx
}
