package check

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool runs Prometheus' own tool in a folder. What it says is in the error.
func promtool(folder string, arguments ...string) error {
	cmd := exec.Command("promtool", arguments...)
	cmd.Dir = folder
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("promtool %v: %w: %s (scripts/install-servers.sh installs it)", arguments, err, said)
	}
	return nil
}

// monitored is a folder with the files of deploy/prometheus, changed, the files that they
// name, and the tests of the rules.
func monitored(t *testing.T, change func(file, text string) string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, file := range []string{"prometheus.yml", "fenlock.rules.yml"} {
		text := read(t, "prometheus/"+file)
		if change != nil {
			text = change(file, text)
		}
		// promtool looks whether they are there.
		text = strings.ReplaceAll(text, "/etc/prometheus/", folder+"/")
		write(t, filepath.Join(folder, file), text, 0o600)
	}
	for _, token := range []string{"fenlock-ui-token", "fenlock-metrics-token"} {
		write(t, filepath.Join(folder, token), "0123456789abcdef", 0o600)
	}
	write(t, filepath.Join(folder, "alerts.yml"), read(t, "check/testdata/alerts.yml"), 0o600)
	return folder
}

func TestPrometheusConfiguration(t *testing.T) {
	if err := promtool(monitored(t, nil), "check", "config", "prometheus.yml"); err != nil {
		t.Error(err)
	}
	for _, broken := range [][2]string{{"credentials_file: /etc/prometheus/fenlock-ui-token",
		"credentials_file: /etc/prometheus/another"}, {"static_configs", "static_config"},
		{"fenlock.rules.yml", "fenlock.rules"}, {"15s", "15"}} {
		folder := monitored(t, func(file, text string) string {
			if file == "prometheus.yml" {
				return with(t, text, broken[0], broken[1])
			}
			return text
		})
		if err := promtool(folder, "check", "config", "prometheus.yml"); err == nil {
			t.Errorf("%q is not noticed", broken[1])
		}
	}
}

// rules are the alerts, as far as their tests go.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// ruleTests are the tests of alerts that promtool runs.
type ruleTests struct {
	Tests []struct {
		Rules []struct {
			Alert string `json:"alertname"`
			Want  []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	}
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(text), into))
}

// Each alert fires when it should, and not when it should not.
func TestAlerts(t *testing.T) {
	folder := monitored(t, nil)
	if err := promtool(folder, "check", "rules", "--lint-fatal", "fenlock.rules.yml"); err != nil {
		t.Error(err)
	}
	if err := promtool(folder, "test", "rules", "alerts.yml"); err != nil {
		t.Error(err)
	}
	var all rules
	parse(t, read(t, "prometheus/fenlock.rules.yml"), &all)
	var tests ruleTests
	parse(t, read(t, "check/testdata/alerts.yml"), &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, group := range tests.Tests {
		for _, r := range group.Rules {
			if len(r.Want) > 0 {
				fires[r.Alert] = true
			} else {
				silent[r.Alert] = true
			}
		}
	}
	guide := read(t, "../docs/telemetry.md")
	n := 0
	for _, group := range all.Groups {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			n++
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: no test in which it fires (%v), or none in which it does not (%v)", r.Alert, fires[r.Alert],
					silent[r.Alert])
			}
			if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" ||
				r.Annotations["description"] == "" {
				t.Errorf("%s has the labels %v and says %v", r.Alert, r.Labels, r.Annotations)
			}
			if url := r.Annotations["runbook_url"]; !strings.HasSuffix(url, "/docs/telemetry.md#alerts") ||
				!strings.Contains(guide, "| `"+r.Alert+"` |") || !strings.Contains(guide, "\n## Alerts\n") {
				t.Errorf("%s: %s does not say what to do", r.Alert, url)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d alerts were found", n)
	}
}

// mistakes are what can be wrong with an alert: a piece of its text that is another one.
var mistakes = map[string][][2]string{
	"FenlockNodeDown": {{`fenlock_state="down"} == 1`, `fenlock_state="down"} == 0`},
		{`fenlock_state="down"} == 1`, `fenlock_state="out"} == 1`}},
	"FenlockNodeOut":           {{`fenlock_state="out"} == 1`, `fenlock_state="out"} == 2`}},
	"FenlockNodeMisconfigured": {{`"misconfigured"} == 1`, `"misconfigured"} > 1`}},
	"FenlockGroupUnseen":       {{`up{job="fenlock-group"} == 0`, `up == 0`}},
	"FenlockNodeNotVoting":     {{"fenlock_node_admitted == 0", "fenlock_node_admitted == 1"}},
	"Fenlock(MajorityAtRisk|NoMajority)": {
		{"and fenlock:nodes > 1", ""}, {"nodes_spare < 0", "nodes_spare < 1"}, {"nodes_spare < 0", "nodes_spare < -1"},
		{`{fenlock_state=~"votes|ready"}`, `{fenlock_state="votes"}`},
		{"floor(fenlock:nodes / 2) - 1", "floor(fenlock:nodes / 2)"},
		{"or count by (job, instance) (fenlock_node_admitted)", ""},
		{"or sum by (job, instance) (fenlock_node_admitted)", ""},
	},
	"FenlockLost": {
		{"increase(fenlock_lost_total[10m]) > 0", "increase(fenlock_lost_total[10m]) > 5"},
		{"or (fenlock_lost_total unless last_over_time(fenlock_lost_total[1h] offset 10m)) > 0", ""},
		{" unless last_over_time(fenlock_lost_total[1h] offset 10m)", ""},
	},
	"FenlockGuardRefused": {
		{"increase(fenlock_guard_refused_total[10m]) > 0", "increase(fenlock_guard_refused_total[10m]) > 5"},
		{"or (fenlock_guard_refused_total unless last_over_time(fenlock_guard_refused_total[1h] offset 10m)) > 0", ""},
		{" unless last_over_time(fenlock_guard_refused_total[1h] offset 10m)", ""},
	},
	"FenlockAcquireFailing": {{`no_quorum|error"}[10m]`, `error"}[10m]`}, {`no_quorum|error"}[10m]`, `no_quorum"}[10m]`},
		{`no_quorum|error"}[10m]`, `no_quorum|error|held"}[10m]`}},
	"FenlockWaiting": {{`{fenlock_outcome="acquired"}[30m]`, `[30m]`},
		{"(fenlock_waiting) > 0", "(fenlock_waiting) > 1"}},
	"FenlockWaitsLong": {{"))) > 300", "))) > 3000"}, {"))) > 300", "))) > 3"}, {"(0.9, sum", "(0.2, sum"}},
	"FenlockExtensionsBehind": {{"[5m])) > 0.1", "[5m])) > 0.2"}, {"[5m])) > 0.1", "[5m])) > 0.01"},
		{`left_seconds_count{fenlock_outcome="no_quorum"}`, `left_seconds_count{fenlock_outcome="extended"}`}},
	"FenlockValidityLow": {{"))) < 2\n", "))) < 0.2\n"}, {"))) < 2\n", "))) < 20\n"}, {"(0.05, sum", "(0.95, sum"}},
}

// The tests of the alerts see what is broken in each of them: thresholds, selections, and
// how long it waits. In each run, all are broken in one way.
func TestAlertsThatAreBroken(t *testing.T) {
	text := read(t, "prometheus/fenlock.rules.yml")
	noticed := func(broken string, alerts ...string) {
		t.Helper()
		folder := monitored(t, func(file, text string) string {
			if file == "fenlock.rules.yml" {
				return broken
			}
			return text
		})
		said := fmt.Sprint(promtool(folder, "test", "rules", "alerts.yml"))
		for _, a := range alerts {
			if !regexp.MustCompile("alertname: " + a + ",").MatchString(said) {
				t.Errorf("%s: nothing is noticed of what is broken there", a)
			}
		}
	}
	for round := 0; ; round++ {
		broken := text
		var alerts []string
		for alert, all := range mistakes {
			if round < len(all) {
				broken, alerts = with(t, broken, all[round][0], all[round][1]), append(alerts, alert)
			}
		}
		if len(alerts) == 0 {
			break
		}
		noticed(broken, alerts...)
	}
	var all rules
	var patient []string
	parse(t, text, &all)
	for _, group := range all.Groups {
		for _, r := range group.Rules {
			if r.Alert != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(mistakes)),
				func(a string) bool { return regexp.MustCompile("^" + a + "$").MatchString(r.Alert) }) {
				t.Errorf("%s: nothing is broken", r.Alert)
			}
			if r.For != "" {
				patient = append(patient, r.Alert)
			}
		}
	}
	for _, instead := range []string{"0s", "5h"} {
		noticed(regexp.MustCompile(`for: \w+`).ReplaceAllString(text, "for: "+instead), patient...)
	}
}
