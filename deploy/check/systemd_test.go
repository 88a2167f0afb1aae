package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// units are what is in deploy/systemd, and an instance of what is a template.
var units = []string{"valkey-fenlock@6379.service", "example-job.service", "example-job.timer",
	"example-leader.service"}

// mostExposed is the largest exposure that systemd-analyze security may find, in tenths:
// between 0 and 10, and "OK" up to 4. What is left are the network and the kernel.
const mostExposed = "15"

// machine makes the root of a machine with the units, changed if change is not nil,
// the programs that they name, and systemd's own units.
func machine(t *testing.T, change func(text string) string) (root string) {
	t.Helper()
	root = t.TempDir()
	systems := "/lib/systemd/system"
	for unit, text := range map[string]string{"sysinit.target": "", "basic.target": "", "shutdown.target": "",
		"network-online.target": "", "time-sync.target": "", "timers.target": "", "multi-user.target": ""} {
		own, err := os.ReadFile(filepath.Join(systems, unit))
		if err != nil {
			t.Fatalf("systemd's own units are missing: %v: run scripts/install-servers.sh (make setup)", err)
		}
		write(t, filepath.Join(root, systems, unit), text+string(own), 0o644)
	}
	files, err := filepath.Glob(filepath.Join(deploy, "systemd", "*"))
	if err != nil || len(files) != len(units) {
		t.Fatalf("%v, %v; want %d files", files, err, len(units))
	}
	for _, file := range files {
		text := read(t, strings.TrimPrefix(file, deploy))
		if change != nil {
			text = change(text)
		}
		write(t, filepath.Join(root, "/etc/systemd/system", filepath.Base(file)), text, 0o644)
	}
	for _, program := range []string{"/usr/bin/valkey-server", "/usr/bin/fenlock"} {
		write(t, filepath.Join(root, program), "#!/bin/sh\n", 0o755)
	}
	return root
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), mode))
}

// analyze runs systemd-analyze on units of a machine. What it says is an error: it is
// content with silence, and only warns of a misspelt setting.
func analyze(t *testing.T, root string, arguments ...string) error {
	t.Helper()
	said, err := exec.Command("systemd-analyze",
		append([]string{"--no-pager", "--root=" + root}, arguments...)...).CombinedOutput()
	if err != nil || len(said) > 0 {
		return fmt.Errorf("systemd-analyze %v: %v: %s", arguments, err, said)
	}
	return nil
}

func verify(t *testing.T, root string) error {
	t.Helper()
	return analyze(t, root, append([]string{"verify", "--man=no", "--recursive-errors=no"}, units...)...)
}

func TestUnits(t *testing.T) {
	must(t, verify(t, machine(t, nil)))
	for _, broken := range [][2]string{
		{"NoNewPrivileges=true", "NoNewPriviliges=true"},
		{"ProtectSystem=strict", "ProtectSystem=harder"},
		{"KillMode=mixed", "KillMode=gently"},
		{"Type=notify", "Type=notified"},
		{"OnCalendar=*-*-* 02:00:00", "OnCalendar=*-*-* 27:00:00"},
		{"ExecStart=/usr/bin/fenlock", "ExecStart=/usr/bin/fenlok"},
		{"ExecStart=/usr/bin/valkey-server", "ExecStart=valkey/server"},
	} {
		noticed := false
		err := verify(t, machine(t, func(text string) string {
			noticed = noticed || strings.Contains(text, broken[0])
			return strings.Replace(text, broken[0], broken[1], 1)
		}))
		if !noticed || err == nil {
			t.Errorf("%q is not noticed", broken[1])
		}
	}
}

func TestUnitsAreConfined(t *testing.T) {
	for _, broken := range []string{"", "CapabilityBoundingSet=\n", "RestrictNamespaces=true\n",
		"SystemCallFilter=@system-service\n"} {
		root := machine(t, func(text string) string { return strings.Replace(text, broken, "", 1) })
		for _, unit := range []string{"valkey-fenlock@.service", "example-job.service", "example-leader.service"} {
			said, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+mostExposed,
				"--root="+root, unit).CombinedOutput()
			if (err == nil) != (broken == "") {
				t.Errorf("%s without %q: %v: %s", unit, broken, err, regexp.MustCompile(`(?m)^→.*`).Find(said))
			}
		}
	}
}

// The timer's moment is the same in each time zone, and no boot is one. A machine that was off
// would do what another one has done. The leader's unit leads.
func TestUnitsOfSeveralMachines(t *testing.T) {
	timer := read(t, "systemd/example-job.timer")
	if m := regexp.MustCompile(`(?m)^(Persistent=|OnBoot|OnStartup|OnActive|OnUnit).*`).FindString(timer); m != "" {
		t.Errorf("the timer has %s", m)
	}
	calendar := regexp.MustCompile(`(?m)^OnCalendar=(.*)$`).FindStringSubmatch(timer)
	if calendar == nil {
		t.Fatal("the timer has no OnCalendar")
	}
	moments := map[string]bool{}
	for _, zone := range []string{"UTC0", "JST-9", "EST5"} {
		cmd := exec.Command("systemd-analyze", "calendar", "--base-time=2026-01-01 00:00:00 UTC", calendar[1])
		cmd.Env = append(os.Environ(), "TZ="+zone, "LC_ALL=C")
		said, err := cmd.CombinedOutput()
		moment := regexp.MustCompile(`(?m)(?:\(in UTC\)|Next elapse): (.* UTC)$`).FindStringSubmatch(string(said))
		if err != nil || moment == nil {
			t.Fatalf("%s: %v: %s", zone, err, said)
		}
		moments[moment[1]] = true
	}
	if len(moments) != 1 {
		t.Errorf("%s is at %v: machines in several time zones do it several times", calendar[0], moments)
	}
	if regexp.MustCompile(`(?m)^WantedBy=`).MatchString(read(t, "systemd/example-job.service")) {
		t.Error("the job's service is started by more than its timer")
	}
	if !strings.Contains(unit(t, "systemd/example-leader.service").command, " --lead ") {
		t.Error("the leader's service ends when it loses the lock")
	}
}

// The unit's command line is one that the server understands, with several addresses.
func TestCommandLineOfTheUnit(t *testing.T) {
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/valkey-server (.*)$`).FindStringSubmatch(read(t,
		"systemd/valkey-fenlock@.service"))
	if line == nil {
		t.Fatal("the unit starts no valkey-server")
	}
	c := newCluster(t, "valkey", 1)
	s := c.servers[0]
	s.Kill()
	arguments := strings.NewReplacer(
		"/etc/fenlock/fenlock.conf", absolute(t, "valkey/fenlock.conf")+" --aclfile "+s.users,
		"/var/lib/valkey-fenlock-%i", s.folder, "%i", s.port, "$FENLOCK_BIND", "127.0.0.1 -::1",
	).Replace(line[1])
	if strings.ContainsAny(arguments, "$%") {
		t.Errorf("%s: what does that stand for?", arguments)
	}
	if err := s.try(strings.Fields(arguments)...); err != nil {
		t.Fatalf("%v; its log:\n%s", err, s.Log())
	}
	takes(t, c.client(t, newServers), "orders/42")
}
