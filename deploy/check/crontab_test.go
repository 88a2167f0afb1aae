package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/internal/testserver"
)

// scheduled is a line of a crontab, or a unit, with what its file sets for it.
type scheduled struct {
	from        string // file and line
	environment []string
	command     string // for a shell
	cron        bool   // which mails what is printed
}

var (
	cronLine    = regexp.MustCompile(`^((?:[*/0-9,-]+\s+){5}|@[a-z]+\s+)(.*\bfenlock run .*)$`)
	cronSetting = regexp.MustCompile(`^([A-Z_]+)\s*=\s*(\S+)$`)
	comment     = regexp.MustCompile(`^\s*(?://|#)?\s*`)
	notEscaped  = regexp.MustCompile(`(?:^|[^\\])%`)
)

// crontabs returns the lines of a file that are a crontab's, in a document or in a comment. What a
// crontab sets stands above its line, with nothing else in between.
func crontabs(t testing.TB, name string) (all []scheduled) {
	t.Helper()
	var settings []string
	for i, line := range strings.Split(read(t, name), "\n") {
		line = comment.ReplaceAllString(line, "")
		if set := cronSetting.FindStringSubmatch(line); set != nil {
			settings = append(settings, set[1]+"="+strings.Trim(set[2], `"'`))
		} else if m := cronLine.FindStringSubmatch(line); m != nil {
			all = append(all, scheduled{fmt.Sprintf("%s:%d", name, i+1), settings, m[2], true})
		} else {
			settings = nil
		}
	}
	return all
}

// unit returns what systemd would run of a file in deploy/systemd.
func unit(t testing.TB, name string) scheduled {
	t.Helper()
	s := scheduled{from: name}
	for line := range strings.Lines(read(t, name)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "Environment":
			s.environment = append(s.environment, strings.Trim(value, `"`))
		case "EnvironmentFile":
			s.environment = append(s.environment, "$(cat "+value+")")
		case "ExecStart":
			s.command = value
		}
	}
	if s.command == "" || strings.ContainsAny(s.command, "%$\"'") {
		t.Fatalf("%s: what does systemd run? %q", name, s.command)
	}
	return s
}

// site is a group of servers, and what its machines have alike: programs, and the files with the
// nodes.
type site struct {
	cluster
	folder string
	runs   int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{cluster: newCluster(t, testserver.Kinds(t)[0], 3), folder: t.TempDir()}
	takes(t, s.client(t, newServers), "another")
	program, err := filepath.Abs(testserver.Fenlock(t))
	must(t, err)
	write(t, s.path("etc/nodes.env"), "FENLOCK_NODES="+s.nodes+"\n", 0o600)
	write(t, s.path("etc/nodes"), strings.ReplaceAll(s.nodes, ",", "\n"), 0o600)
	// The minute is the same for all, as far as they ask for it in the same time zone.
	write(t, s.path("bin/date"), "#!/bin/sh\nexec /bin/date -d @1700000000 \"$@\"\n", 0o755)
	must(t, os.Symlink(program, s.path("bin/fenlock")))
	return s
}

// mayEnd is the file that lets the jobs of this run end.
func (s *site) mayEnd() string { return s.path("go" + strconv.Itoa(s.runs)) }

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

// here puts what is there in the place of what a document names.
func (s *site) here(text string) string {
	for i, url := range strings.Split(s.nodes, ",") {
		text = strings.ReplaceAll(text, fmt.Sprintf("valkey://10.0.0.%d:6379", i+1), url)
	}
	return strings.NewReplacer("/usr/local/bin", s.path("bin"), "/usr/bin/fenlock", s.path("bin/fenlock"),
		"/etc/fenlock/", s.path("etc")+"/").Replace(text)
}

// host is one of the machines: a home of its own, and a time zone.
type host struct {
	home  string
	ended chan struct{} // closed when its line has ended
	cmd   *exec.Cmd
}

// boot makes a machine, and has it start what is scheduled as cron or systemd does. The environment
// has nothing of this test's, nor of a user's profile.
func (s *site) boot(t *testing.T, what scheduled, zone, job string) *host {
	t.Helper()
	h := &host{home: t.TempDir(), ended: make(chan struct{})}
	text := fmt.Sprintf("#!/bin/sh\necho >>%s/ran\nuntil [ -e %s ]; do sleep 0.02; done\n", h.home, s.mayEnd())
	command := s.here(what.command)
	if strings.HasPrefix(job, "./") {
		write(t, filepath.Join(h.home, job), text, 0o755)
	} else {
		own := filepath.Join(h.home, ".bin", filepath.Base(job))
		write(t, own, text, 0o755)
		command = strings.ReplaceAll(command, s.here(job), own)
	}
	output, err := os.Create(h.output())
	must(t, err)
	defer output.Close()
	set := ""
	for _, variable := range what.environment {
		set += s.here(variable) + " "
	}
	// What a crontab sets is stronger than what cron does; this test's programs are as if they were
	// in /usr/bin.
	script := `env -i HOME="$1" LOGNAME=somebody SHELL=/bin/sh PATH=/usr/bin:/bin TZ="$2" ` + set +
		` sh -c 'PATH="$2:$PATH"; export PATH; cd "$HOME"; exec /bin/sh -c "$1"' sh "$3" "$4"`
	h.cmd = exec.CommandContext(t.Context(), "sh", "-c", script, "sh", h.home, zone, command, s.path("bin"))
	h.cmd.Stdout, h.cmd.Stderr = output, output
	must(t, h.cmd.Start())
	go func() {
		h.cmd.Wait()
		close(h.ended)
	}()
	return h
}

func (h *host) output() string { return filepath.Join(h.home, "output") }

// said is what it has printed.
func (h *host) said() string {
	text, _ := os.ReadFile(h.output())
	return string(text)
}

// ran reports whether it has begun with the job.
func (h *host) ran() bool {
	_, err := os.Stat(filepath.Join(h.home, "ran"))
	return err == nil
}

// over reports whether it has ended.
func (h *host) over() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

var (
	theJob    = regexp.MustCompile(` -- (\S+)$`)
	saysLocal = regexp.MustCompile(` --local\b|\bFENLOCK_NODES=local\b`)
	atLeast   = regexp.MustCompile(` --at-least (\S+) `)
	// A machine may be so busy that no server answers in time.
	disturbed = regexp.MustCompile(`no quorum|could not be kept|cannot be extended`)
)

// wrong returns what is wrong with what is scheduled, "" for nothing.
func (s *site) wrong(t *testing.T, what scheduled) (problem string) {
	t.Helper()
	for range 20 {
		var hosts []*host
		hosts, problem = s.attempt(t, what)
		// All may have gone home, each for another one that was about to begin.
		gone := len(hosts) > 0 && !slices.ContainsFunc(hosts, func(h *host) bool {
			return h.ran() || h.cmd.ProcessState.ExitCode() != 0 && h.cmd.ProcessState.ExitCode() != 75
		})
		if !gone && !disturbed.MatchString(said(hosts)) {
			break
		}
		t.Logf("once more: %s", said(hosts))
	}
	return problem
}

// attempt has three machines of two time zones start what is scheduled at the same moment. On nodes
// one of them has to work, and for one machine each.
func (s *site) attempt(t *testing.T, what scheduled) (hosts []*host, problem string) {
	t.Helper()
	s.free(t)
	if what.cron && notEscaped.MatchString(what.command) {
		return nil, `cron ends a command at a %, and gives it the rest to read: write \%`
	}
	what.command = strings.ReplaceAll(what.command, `\%`, "%")
	job := theJob.FindStringSubmatch(what.command)
	if job == nil {
		return nil, "no job at its end"
	}
	local := saysLocal.MatchString(what.command + " " + strings.Join(what.environment, " "))
	s.runs++
	begun := time.Now()
	boot := func(zone string) *host {
		h := s.boot(t, what, zone, job[1])
		hosts = append(hosts, h)
		return h
	}
	goOn := s.mayEnd()
	t.Cleanup(func() { os.WriteFile(goOn, nil, 0o600) })
	for _, zone := range []string{"UTC0", "JST-9", "UTC0"} {
		boot(zone)
	}
	// Each works, waits or has gone home. The job does not end before that.
	eventually(t, func() error {
		for _, h := range hosts {
			if !h.over() && !h.ran() && !strings.Contains(h.said(), "waiting: ") {
				return fmt.Errorf("%s: it neither works nor waits: %s", what.from, h.said())
			}
		}
		return nil
	})
	working := 0
	for _, h := range hosts {
		if h.ran() {
			working++
		}
	}
	write(t, goOn, "", 0o600)
	for _, h := range hosts {
		eventually(t, func() error {
			if !h.over() {
				return fmt.Errorf("%s: it does not end: %s", what.from, h.said())
			}
			return nil
		})
	}
	switch want := map[bool]int{true: 3, false: 1}[local]; {
	case working != want:
		return hosts, fmt.Sprintf("%d of 3 machines work, not %d: %s", working, want, said(hosts))
	case !local && !strings.Contains(what.command, " --lead "):
		// The job is done, and a machine begins whose clock is late.
		h := boot("JST-9")
		<-h.ended
		m := atLeast.FindStringSubmatch(what.command)
		if m == nil {
			return hosts, "a machine whose clock is late does it again: --at-least"
		}
		// Clocks may differ by seconds. On a machine that is so slow that the time is over, nothing
		// is known.
		if kept, err := time.ParseDuration(m[1]); err != nil || kept < 10*time.Second || h.ran() && time.Since(begun) < kept {
			return hosts, fmt.Sprintf("a machine whose clock is late does it again (%v)", err)
		}
	}
	if text := said(hosts); what.cron && text != "" || strings.Contains(text, "this machine only") {
		return hosts, "it prints: " + text
	}
	for _, h := range hosts {
		if status := h.cmd.ProcessState.ExitCode(); status != 0 && (what.cron || status != 75) {
			return hosts, fmt.Sprintf("exit status %d: %s", status, h.said())
		}
	}
	return hosts, ""
}

func said(hosts []*host) (all string) {
	for _, h := range hosts {
		all += h.said()
	}
	return all
}

// free breaks a lock, as what came before may hold it for a minimum.
func (s *site) free(t *testing.T) {
	t.Helper()
	a := admin.Of(s.client(t, nil))
	page, err := a.List(t.Context(), "", "", 100)
	must(t, err)
	for _, l := range page.Locks {
		if _, err := a.ForceRelease(t.Context(), l.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// allScheduled are the lines and units of all documents, examples and files of this folder.
func allScheduled(t *testing.T) (all []scheduled) {
	t.Helper()
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../examples/*.md", "../examples/*/*.go", "*/*", "*/*/*"} {
		files, err := filepath.Glob(filepath.Join(deploy, pattern))
		must(t, err)
		for _, file := range files {
			name, err := filepath.Rel(deploy, file)
			must(t, err)
			info, err := os.Stat(file)
			switch {
			case err != nil:
				t.Fatal(err)
			case !info.Mode().IsRegular() || strings.HasPrefix(name, "check/"):
			case filepath.Ext(name) == ".service" && strings.Contains(read(t, name), "=/usr/bin/fenlock "):
				all = append(all, unit(t, name))
			default:
				all = append(all, crontabs(t, name)...)
			}
		}
	}
	return all
}

// Each crontab line and unit does on three machines what it is for.
func TestScheduled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := allScheduled(t)
	for _, what := range all {
		t.Logf("%s: %q %s", what.from, what.environment, what.command)
		if problem := s.wrong(t, what); problem != "" {
			t.Errorf("%s: %s\n%s", what.from, what.command, problem)
		}
	}
	if len(all) < 8 {
		t.Errorf("%d were found: the test does not see them", len(all))
	}
}

// The same lines, each wrong in a way of its own, are noticed.
func TestWrongScheduled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all := allScheduled(t)
	for _, broken := range []struct{ from, old, changed, says string }{
		{"docs/command.md", "FENLOCK_NODES=", "NODES=", "3 of 3 machines work, not 1"},
		{"docs/command.md", " --local ", " ", "3 of 3 machines work, not 1: fenlock: no servers are named"},
		{"docs/command.md", " -q ", " ", "it prints: fenlock: \"report\" is held"},
		{"docs/command.md", "date -u ", "date ", "2 of 3 machines work, not 1"},
		{"docs/command.md", `\%FT`, "%FT", `write \%`},
		{"docs/command.md", " --at-least 25s ", " ", "--at-least"},
		{"docs/command.md", " --at-least 25s ", " --at-least 1s ", "does it again"},
		{"docs/command.md", " -E 0 ", " ", "it prints: fenlock: \"report\" is held"},
		{"docs/getting-started.md", "FENLOCK_NODES=", "NODES=", "3 of 3 machines work, not 1"},
		{"docs/getting-started.md", "FENLOCK_NODES=", "FENLOCK_NODES=local,", "0 of 3 machines work"},
		{"README.md", " --local ", " --locl ", "0 of 3 machines work"},
		{"example-job.service", "$(cat /etc/fenlock/nodes.env)", "", "3 of 3 machines work, not 1"},
		{"example-job.service", " --at-least 25s", "", "--at-least"},
		{"example-job.service", " --no-wait", " --frob", "unknown flag"},
		{"example-leader.service", "$(cat /etc/fenlock/nodes.env)", "", "3 of 3 machines work, not 1"},
	} {
		found := false
		for _, what := range all {
			if !strings.Contains(what.from, broken.from) || found {
				continue
			}
			whole := strings.Join(append([]string{what.command}, what.environment...), "\x00")
			if found = strings.Contains(whole, broken.old); !found {
				continue
			}
			pieces := strings.Split(strings.Replace(whole, broken.old, broken.changed, 1), "\x00")
			what.command, what.environment = pieces[0], pieces[1:]
			if problem := s.wrong(t, what); !strings.Contains(problem, broken.says) {
				t.Errorf("%s: %q in the place of %q: says %q, want %q", what.from, broken.changed, broken.old, problem, broken.says)
			}
		}
		if !found {
			t.Errorf("%s has no %q any more: what is to be broken instead?", broken.from, broken.old)
		}
	}
}
