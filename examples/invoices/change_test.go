// Package invoices has one service twice: before and after docs/migration.md. Its test does what
// the page says, with processes, while the service is used.
package invoices

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

const (
	expiry = 1600 * time.Millisecond
	slow   = expiry + expiry/4 // work that outlasts a lock that is not extended
)

// book has the last number, and no lock. It is the witness: a process that reads the number is in,
// until it has written, and no other may come in meanwhile.
type book struct {
	mu    sync.Mutex
	last  int
	in    bool
	wrong []string
}

func (b *book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		if b.in {
			b.wrong = append(b.wrong, fmt.Sprintf("two took number %d", b.last+1))
		}
		b.in = true
		fmt.Fprint(w, b.last)
		return
	case r.Method == http.MethodPut:
		number, e := strconv.Atoi(string(text))
		if err != nil || e != nil || number != b.last+1 || !b.in {
			b.wrong = append(b.wrong, fmt.Sprintf("%q was written after %d", text, b.last))
		}
		b.last = number
	}
	b.in = false
}

// instance is a process of the service.
type instance struct {
	kind string // before or after
	url  string
	cmd  *exec.Cmd
	ends chan error
}

// service is its instances, and those who use it.
type service struct {
	t       *testing.T
	folder  string // of the programs
	settles []string

	mu        sync.Mutex
	instances []*instance
	served    map[string]int // by kind
	numbers   []int
	wrong     []string
}

func (s *service) start(kind string) *instance {
	s.t.Helper()
	i := &instance{kind: kind, cmd: exec.Command(filepath.Join(s.folder, kind)), ends: make(chan error, 1)}
	i.cmd.Env = append(os.Environ(), s.settles...)
	i.cmd.Stderr = os.Stderr
	stdout, err := i.cmd.StdoutPipe()
	if err == nil {
		err = i.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { i.cmd.Process.Kill() })
	var addr string
	fmt.Fscanln(stdout, &addr)
	i.url = "http://" + addr + "/invoices"
	go func() { i.ends <- i.cmd.Wait() }()
	return i
}

// replace ends an instance as a service manager does, and starts another one in its place.
func (s *service) replace(n int, kind string) {
	s.t.Helper()
	s.mu.Lock()
	old := s.instances[n]
	s.mu.Unlock()
	old.cmd.Process.Signal(syscall.SIGTERM)
	if err := <-old.ends; err != nil {
		s.t.Errorf("an instance %s ended: %v", old.kind, err)
	}
	next := s.start(kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances[n] = next
}

// ask takes a number from an instance, or finds that it is being replaced.
func (s *service) ask(i *instance, work time.Duration) {
	answer, err := http.PostForm(i.url, url.Values{"work": {work.String()}})
	if err != nil {
		return // not begun: who had begun is answered before the instance ends
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	number, e := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || e != nil || answer.StatusCode != http.StatusOK {
		s.wrong = append(s.wrong, fmt.Sprintf("an instance %s: %s %s", i.kind, answer.Status, text))
		return
	}
	s.numbers = append(s.numbers, number)
	s.served[i.kind]++
}

func (s *service) any() *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instances[rand.IntN(len(s.instances))]
}

// serve waits until each of these kinds has served some more.
func (s *service) serve(kinds ...string) {
	s.t.Helper()
	count := func(kind string) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.served[kind]
	}
	for _, kind := range kinds {
		enough := count(kind) + 3
		for end := time.Now().Add(3 * time.Minute); count(kind) < enough; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				s.t.Fatalf("instances %s serve nobody", kind)
			}
		}
	}
}

// page returns the commands of docs/migration.md for a service on redsync.
func page(t *testing.T) (commands string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## redsync\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands += command
		}
	}
	return commands
}

func run(t *testing.T, folder string, environment []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), environment...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, output)
	}
	return string(output)
}

// Three instances on three servers are replaced one after the other, from redsync to fenlock and
// back, while they are used. Each number is given once, and no lock is lost.
func TestPageIsFollowed(t *testing.T) {
	folder := t.TempDir()
	run(t, ".", nil, "go", "build", "-o", folder+"/", "./before", "./after", "../../cmd/fenlock")
	servers := testserver.Group(t, testserver.Kinds(t)[0], 3)
	var addrs, nodes []string
	for _, server := range servers {
		server.MarkAdmitted("", fenlock.DefaultMaxTTL) // instead of waiting for as long
		addrs, nodes = append(addrs, server.Addr()), append(nodes, server.URL())
	}
	witness := &book{}
	ledger := httptest.NewServer(witness)
	defer ledger.Close()
	s := &service{t: t, folder: folder, served: map[string]int{}, settles: []string{
		"SERVERS=" + strings.Join(addrs, ","), "LEDGER=" + ledger.URL, "LISTEN=127.0.0.1:0", "EXPIRY=" + expiry.String()}}
	for range 3 {
		s.instances = append(s.instances, s.start("before"))
	}
	var stop atomic.Bool
	var users sync.WaitGroup
	for range 3 {
		users.Go(func() {
			for !stop.Load() {
				s.ask(s.any(), rand.N(4*time.Millisecond))
				time.Sleep(rand.N(60 * time.Millisecond))
			}
		})
	}
	s.serve("before")

	_, commands, found := strings.Cut(page(t), "\n") // but the first line, which says where the servers are
	if !found {
		t.Fatal("the page has no commands")
	}
	said := run(t, folder, []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "FENLOCK_PREFIX=",
		"FENLOCK_NODES=" + strings.Join(nodes, ",")},
		// warnings are about old versions
		"bash", "-c", "set -e\n"+strings.ReplaceAll(commands, "fenlock doctor", "fenlock doctor || [ $? = 1 ]"))
	if !strings.Contains(said, "3 of 3 vote") {
		t.Errorf("the page's commands say:\n%s", said)
	}

	for _, to := range []string{"after", "before"} {
		for n := range s.instances {
			s.replace(n, to)
			if n < len(s.instances)-1 {
				s.serve("before", "after")
			}
			if n == 1 && to == "after" { // each kind keeps a lock for longer than it lasts
				s.ask(s.instances[2], slow)
				s.ask(s.instances[0], slow)
			}
		}
		s.serve(to)
	}
	stop.Store(true)
	users.Wait()
	for _, i := range s.instances {
		i.cmd.Process.Signal(syscall.SIGTERM)
		if err := <-i.ends; err != nil {
			t.Error(err)
		}
	}
	for _, wrong := range slices.Concat(witness.wrong, s.wrong) {
		t.Error(wrong)
	}
	slices.Sort(s.numbers)
	for n, number := range s.numbers {
		if number != n+1 {
			t.Fatalf("the %d. number is %d", n+1, number)
		}
	}
	if witness.last != len(s.numbers) {
		t.Errorf("%d numbers are taken, and %d were told", witness.last, len(s.numbers))
	}
	t.Log(s.served)
}
