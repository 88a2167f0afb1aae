package telemetry_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// emitted are all metrics, and the labels of each. TestCommandIsLikeTheLibrary and
// TestPrometheus see that they are those which the code has.
var emitted = map[string][]string{
	"fenlock_acquire_duration_seconds":      {"fenlock_outcome", "le"},
	"fenlock_wait_duration_seconds":         {"fenlock_outcome", "le"},
	"fenlock_hold_duration_seconds":         {"le"},
	"fenlock_validity_left_seconds":         {"le"},
	"fenlock_extend_left_seconds":           {"fenlock_outcome", "le"},
	"fenlock_node_duration_seconds":         {"fenlock_node_name", "fenlock_operation", "fenlock_outcome", "le"},
	"fenlock_held":                          nil,
	"fenlock_waiting":                       nil,
	"fenlock_lost_total":                    {"fenlock_cause"},
	"fenlock_node_admitted":                 {"fenlock_node_name"},
	"fenlock_guard_refused_total":           nil,
	"fenlock_group_node_state":              {"fenlock_node_name", "fenlock_state"},
	"fenlock_group_node_round_trip_seconds": {"fenlock_node_name"},
	"fenlock_group_complete":                nil,
	"fenlock_group_held":                    nil,
	"fenlock_group_waiting":                 nil,
	"fenlock_group_late":                    nil,
}

// known are the names of the metrics without those that have a prefix, in order.
func known(without string) (names []string) {
	for name := range emitted {
		if !strings.HasPrefix(name, without) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// dashboard is what of Grafana's format the tests look at.
type dashboard struct {
	Title, UID string
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []struct {
		ID         int
		Type       string
		Title      string
		Datasource struct{ UID string }
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/fenlock.json")
	must(t, err)
	must(t, json.Unmarshal(text, &d))
	return d
}

// filled is an expression as Grafana sends it.
func filled(expr string) string {
	return strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "5m", "$__range", "5m").Replace(expr)
}

var (
	braces  = regexp.MustCompile(`\{[^}]*\}|(?:by|without|on|ignoring) \([^)]*\)`)
	metrics = regexp.MustCompile(`\bfenlock_\w+`)
	labels  = regexp.MustCompile(`[a-z_]+`)
	quoted  = regexp.MustCompile(`"[^"]*"`)
)

// understood returns an error unless an expression asks for what there is, by labels that it
// has. What it is syntactically is for promtool to say.
func understood(expr string) error {
	plain := braces.ReplaceAllString(expr, "")
	var has []string
	names := metrics.FindAllString(plain, -1)
	if len(names) == 0 {
		return fmt.Errorf("%s: it asks for nothing", expr)
	}
	for _, name := range names {
		bare := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, found := strings.CutSuffix(name, suffix); found && slices.Contains(emitted[cut], "le") {
				bare = cut
			}
		}
		of, found := emitted[bare]
		if !found || bare == name && slices.Contains(of, "le") {
			return fmt.Errorf("%s: there is no metric %s", expr, name)
		}
		has = append(has, of...)
	}
	has = append(has, "job", "instance", "by")
	for _, piece := range braces.FindAllString(expr, -1) {
		for _, l := range labels.FindAllString(quoted.ReplaceAllString(piece, ""), -1) {
			if !slices.Contains(has, l) {
				return fmt.Errorf("%s: there is no label %s", expr, l)
			}
		}
	}
	return nil
}

// promtool has Prometheus' own parser.
func checkRules(t *testing.T, exprs []string) error {
	t.Helper()
	text := "groups:\n- name: expressions\n  rules:\n"
	for i, expr := range exprs {
		text += fmt.Sprintf("  - record: test:%d\n    expr: %q\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	if said, err := exec.Command("promtool", "check", "rules", file).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s (scripts/install-servers.sh installs promtool)", err, said)
	}
	return nil
}

// Each panel asks for what there is, and has a place of its own.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	var exprs []string
	ids, places, used := map[int]bool{}, map[[2]int]string{}, ""
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("%q has the id %d, which is another's or none", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := places[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q is on %q, or off the page", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%q asks %q for %d things", p.Title, p.Datasource.UID, len(p.Targets))
		}
		for _, target := range p.Targets {
			exprs = append(exprs, filled(target.Expr))
			used += target.Expr + "\n"
			if err := understood(filled(target.Expr)); err != nil {
				t.Errorf("%q: %v", p.Title, err)
			}
			for _, l := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if l[1] != "instance" && !strings.Contains(target.Expr, l[1]) && !slices.Contains(emitted[target.Expr], l[1]) {
					t.Errorf("%q: the legend has %s, which %s has not", p.Title, l[1], target.Expr)
				}
			}
		}
	}
	if err := checkRules(t, exprs); err != nil {
		t.Error(err)
	}
	for name := range emitted {
		if !strings.Contains(used, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, v := range d.Templating.List {
		text := fmt.Sprint(v.Query)
		if v.Type == "query" && understood(strings.TrimSuffix(strings.TrimPrefix(filled(text[strings.Index(text,
			"label_values"):]), "label_values("), ")]")) != nil {
			t.Errorf("the variable %s asks for %s", v.Name, text)
		}
	}
	if d.UID != "fenlock" || len(exprs) < 20 {
		t.Errorf("%d expressions in %q", len(exprs), d.UID)
	}
}

// The rules ask for what there is.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/fenlock.rules.yml")
	must(t, err)
	n := 0
	for _, match := range regexp.MustCompile(
		`(?m)^ {8}expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)`).FindAllStringSubmatch(string(text), -1) {
		expr := match[1] + match[2]
		n++
		if strings.Contains(expr, "fenlock:") || strings.HasPrefix(expr, "up{") {
			continue
		}
		if err := understood(expr); err != nil {
			t.Error(err)
		}
	}
	if n != strings.Count(string(text), " expr: ") || n < 10 {
		t.Errorf("%d expressions were found", n)
	}
}

// What is broken in an expression is noticed.
func TestBrokenExpressions(t *testing.T) {
	for _, expr := range []string{
		"fenlock_locks", "sum(fenlock_hold_duration_seconds)", "fenlock_held_count", "fenlock_lost_total_bucket",
		`fenlock_lost_total{fenlock_reason="lost"}`,
		"sum by (fenlock_node_name) (fenlock_held)", "up",
		`sum by (fenlock_outcome) (rate(fenlock_acquire_duration_count[5m]))`,
	} {
		if understood(expr) == nil {
			t.Errorf("%s is understood", expr)
		}
	}
	for _, expr := range []string{"sum by (fenlock_held", "rate(fenlock_held)", "histogram_quantile(fenlock_held)"} {
		if checkRules(t, []string{expr}) == nil {
			t.Errorf("promtool understands %s", expr)
		}
	}
}
