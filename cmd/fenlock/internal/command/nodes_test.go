//go:build linux || darwin || freebsd

package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

var update = flag.Bool("update", false, "write the files of testdata anew: read the difference before you commit it")

// shown is a group that has some of everything, as it is shown.
func shown() (groupView, []doctor.Finding) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.FixedZone("", 3600))
	members := []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379"}
	info := func(i int, change func(info *admin.NodeInfo, e *node.Examination)) admin.NodeInfo {
		one := admin.NodeInfo{Node: "valkey://" + members[i], Examination: node.Examination{
			Product: "Valkey", Version: "8.0.10", Server: fmt.Sprintf("%040x", i), Member: members[i], Role: "primary",
			Address: strings.TrimSuffix(members[i], ":6379"),
			Uptime:  75 * time.Hour, RoundTrip: 412 * time.Microsecond,
			Clock:    node.ClockReading{Store: at.Add(1500 * time.Microsecond), Here: at},
			Admitted: true, MaxTTL: 30 * time.Second, Members: members, Memory: fmt.Sprint(i),
		}}
		change(&one, &one.Examination)
		return one
	}
	g := doctor.Group{TTL: 10 * time.Second, Nodes: []admin.NodeInfo{
		info(0, func(*admin.NodeInfo, *node.Examination) {}),
		info(1, func(_ *admin.NodeInfo, e *node.Examination) {
			e.Admitted, e.Rebuild, e.Why, e.Wait, e.Uptime = false, true,
				"it was started a short time ago and may have forgotten leases", 27500*time.Millisecond, 3*time.Second
		}),
		info(2, func(info *admin.NodeInfo, e *node.Examination) {
			// A server may send anything.
			info.Err = fmt.Errorf("%s: %w: the user or the password is wrong (WRONGPASS \x1b[2J)", info.Node,
				node.ErrMisconfigured)
			*e = node.Examination{Member: e.Member}
		}),
		info(3, func(info *admin.NodeInfo, e *node.Examination) {
			info.Err = fmt.Errorf("%s: it takes the connection and does not answer within 2s", info.Node)
			*e = node.Examination{Member: e.Member,
				Findings: []node.Finding{node.Found("hangs", node.Warning, "It hangs.").Do("Continue it.")}}
		}),
		info(4, func(_ *admin.NodeInfo, e *node.Examination) {
			e.Clock.Store, e.RoundTrip = e.Clock.Store.Add(time.Hour), 12345*time.Microsecond
			e.Findings = []node.Finding{node.Found("crash", node.Note, "It would forget its locks.").Do("appendfsync always.")}
		}),
	}}
	g.Nodes[0].Examination.Findings = g.Nodes[4].Examination.Findings
	v := view(g)
	v.at = at
	return v, g.Examine()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}

func TestNodesAreShown(t *testing.T) {
	v, found := shown()
	golden(t, "nodes.txt", v.text())
	golden(t, "doctor.txt", v.findings(found))
	var documents bytes.Buffer
	encode(&documents, v.document())
	encode(&documents, v.diagnosis(found, statusOf(found)))
	encode(&documents, v.diagnosis(nil, 0))
	golden(t, "look.json", documents.String())
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("x", 120)
	for text, want := range map[string]string{
		"":                                 "- \n",
		"a b":                              "- a b\n",
		strings.Repeat("word ", 20):        "- " + strings.TrimSpace(strings.Repeat("word ", 19)) + "\n  word\n",
		"a " + long + " b":                 "- a\n  " + long + "\n  b\n",
		strings.Repeat("äöüß ", 19) + "äö": "- " + strings.TrimSpace(strings.Repeat("äöüß ", 19)) + "\n  äö\n",
	} {
		if got := wrap(text, "- ", "  "); got != want {
			t.Errorf("%q becomes\n%s, want\n%s", text, got, want)
		}
	}
}

// The exit status tells how bad it is, and what is ignored does not count.
func TestDoctorExitStatus(t *testing.T) {
	h, servers := group(t, 30*time.Second)
	run := func(status int, words string) diagnosisDoc {
		t.Helper()
		text := h.output(status, "doctor --json --for 0s --ttl 30s "+words)
		var d diagnosisDoc
		if err := json.Unmarshal([]byte(text), &d); err != nil || strings.Count(text, "\n") != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		if d.ExitStatus != status || d.Needed != 2 || len(d.Nodes) != 3 || d.Findings == nil {
			t.Errorf("status %d: %+v", status, d)
		}
		return d
	}
	const holes = "--ignore=known-holes" // which the servers of the tests may have
	if d := run(0, holes); d.Usable != 3 || d.Nodes[0].RoundTripMS <= 0 || d.Nodes[0].State != "votes" {
		t.Errorf("%+v", d)
	}
	servers[0].Do("CONFIG", "SET", "timeout", "1")
	run(1, holes)
	run(0, holes+" --ignore idle-timeout")
	servers[0].Do("CONFIG", "SET", "timeout", "0")
	servers[1].Do("FLUSHALL")
	if d := run(1, holes); d.Usable != 2 || d.Nodes[1].State != "out" || d.Nodes[1].WaitMS <= 0 ||
		d.Nodes[1].WaitMS > 32_000 {
		t.Errorf("%+v", d)
	}
	servers[2].Kill()
	if d := run(2, holes); d.Usable != 1 || d.Nodes[2].State != "down" {
		t.Errorf("%+v", d)
	}
	run(2, holes+" --max-ttl 1m")
	if servers[1].IsAdmitted("fenlock:") || servers[1].Do("DBSIZE") != "0" {
		t.Error("a server was changed by being looked at")
	}
}

// What people see has no password, whatever goes wrong.
func TestLookShowsNoPassword(t *testing.T) {
	const secret = "hunter22"
	s := testserver.Start(t, testserver.Kinds(t)[0], "requirepass right-one")
	gone := testserver.Start(t, testserver.Kinds(t)[0])
	gone.Kill()
	h := newHome(t, nodesVariable+"=valkey://ann:"+secret+"@"+s.Addr()+",valkey://:"+secret+"@"+gone.Addr()+",valkey://:"+
		secret+"@nowhere.invalid")
	for _, args := range []string{"nodes", "nodes --json", "doctor --for 0s", "doctor --for 0s --json"} {
		r := h.start(append([]string{"fenlock"}, strings.Fields(args)...)...)
		text := r.rest()
		status := 0
		if strings.HasPrefix(args, "doctor") {
			status = 2
		}
		if r.want(status); strings.Contains(text+r.stderr.String(), secret) || !strings.Contains(text, "password is wrong") {
			t.Errorf("%s:\n%s%s", args, text, &r.stderr)
		}
	}
}

// On one machine without a server there is a file to look at, once there is one.
func TestLookAtAFile(t *testing.T) {
	h := newHome(t)
	h.start("fenlock", "nodes").want(69, "there is no file")
	h.start("fenlock", "doctor").want(2, "there is no file")
	if made, err := os.ReadDir(h.state); err != nil || len(made) != 0 {
		t.Errorf("%v was made by looking, %v", made, err)
	}
	h.start("fenlock", "run", "a", "--", "true").want(0)
	if text := h.output(0, "nodes"); !strings.Contains(text, "locks  votes") || !strings.Contains(text, "file 1") ||
		!strings.Contains(text, "\nLocks can be taken.") {
		t.Error(text)
	}
	must(t, os.Chmod(filepath.Join(h.state, "fenlock", "locks"), 0o666))
	if text := h.output(1, "doctor --ignore disk-space"); !strings.Contains(text, "WARNING [file-mode]") ||
		!strings.Contains(text, "chmod 600") {
		t.Error(text)
	}
}

// Of a full disk one thing is said.
func TestFullDiskIsNoContradiction(t *testing.T) {
	v := groupView{nodes: make([]nodeView, 1), need: 1, usable: 1}
	full := doctor.Finding{Finding: node.Found("disk-space", node.Error, "The disk is full.")}
	if text := v.findings([]doctor.Finding{full}); strings.Contains(text, "Locks can be taken") ||
		!strings.Contains(text, "Some names can be locked, and others not") {
		t.Error(text)
	}
	full.Severity = node.Warning
	if text := v.findings([]doctor.Finding{full}); !strings.Contains(text, "\nLocks can be taken.") {
		t.Error(text)
	}
}

// Watched nodes are printed again and again, until it is ended by hand.
func TestNodesAreWatched(t *testing.T) {
	h, servers := group(t, 30*time.Second)
	r := h.start("fenlock", "nodes", "--json", "--watch=100ms")
	states := func() string {
		var d nodesDoc
		must(t, json.Unmarshal([]byte(r.line()), &d))
		return fmt.Sprint(d.Usable, d.Nodes[1].State)
	}
	if got := states(); got != "3votes" {
		t.Error(got)
	}
	servers[1].Kill()
	for end := time.Now().Add(limit / 2); ; {
		if states() == "2down" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not notice")
		}
	}
	r.signal(syscall.SIGINT)
	if err := r.cmd.Wait(); err == nil || !strings.Contains(err.Error(), "interrupt") {
		t.Error(errors.Join(err, errors.New("it was not ended by the signal")))
	}
}

// Programs and --ignore go by the words of the checks: docs/json.md has all of them, and
// no others.
func TestChecksAreDocumented(t *testing.T) {
	named := regexp.MustCompile(`(?:node\.Found|found)\("([a-z-]+)"|^\s*\{"([a-z-]+)", \[\]string\{"`)
	inCode := map[string]bool{}
	for _, folder := range []string{"../doctor", "../../../../node/respnode/internal/examine",
		"../../../../node/filenode", "../../../../node/pgnode", "../../../../node/mysqlnode",
		"../../../../node/etcdnode", "../../../../node/zknode", "../../../../node/bucketnode", "../../../../node/natsnode"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for line := range strings.Lines(string(text)) {
				for _, match := range named.FindAllStringSubmatch(line, -1) {
					inCode[match[1]+match[2]] = true
				}
			}
		}
	}
	text, err := os.ReadFile("../../../../docs/json.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "| check | finds |")
	inDocs := map[string]bool{}
	for line := range strings.Lines(table) {
		if columns := strings.Split(line, "|"); len(columns) > 1 {
			for _, match := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(columns[1], -1) {
				inDocs[match[1]] = true
			}
		}
	}
	if len(inCode) < 55 || !maps.Equal(inCode, inDocs) {
		for check := range inCode {
			if !inDocs[check] {
				t.Errorf("docs/json.md lacks %s", check)
			}
		}
		for check := range inDocs {
			if !inCode[check] {
				t.Errorf("docs/json.md has %s, which nothing finds", check)
			}
		}
	}
}
