package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
)

// monitor is a Prometheus that asks every half second.
type monitor struct{ address string }

// observe starts one that asks the jobs, with the alerts of deploy/prometheus, which
// wait for a second only.
func observe(t *testing.T, jobs map[string]string) monitor {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: scripts/install-servers.sh installs it (make setup)", err)
	}
	folder := t.TempDir()
	rules, err := os.ReadFile("../../deploy/prometheus/fenlock.rules.yml")
	must(t, err)
	text := regexp.MustCompile(`for: \w+`).ReplaceAllString(string(rules), "for: 1s")
	must(t, os.WriteFile(filepath.Join(folder, "fenlock.rules.yml"), []byte(text), 0o600))
	text = "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [fenlock.rules.yml]\nscrape_configs:\n"
	for job, address := range jobs {
		text += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%q]}]}\n", job, address)
	}
	must(t, os.WriteFile(filepath.Join(folder, "prometheus.yml"), []byte(text), 0o600))
	m := monitor{fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := testserver.Launch(ctx, t, folder, path, []string{
		"--config.file=" + filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(folder, "data"),
		"--web.listen-address=" + m.address,
	}, func() error { return m.get("/-/ready", nil, nil) })
	t.Cleanup(p.Kill)
	if err != nil {
		t.Fatalf("%v; its log:\n%s", err, p.Log())
	}
	return m
}

// get asks the API of Prometheus for data.
func (m monitor) get(path string, query url.Values, into any) error {
	client := http.Client{Timeout: patience}
	resp, err := client.Get("http://" + m.address + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return fmt.Errorf("%s %v: %s", path, query, resp.Status)
	}
	if into == nil {
		return nil
	}
	answer := struct{ Data any }{into}
	return json.NewDecoder(resp.Body).Decode(&answer)
}

// values returns what an expression is now, of each series.
func (m monitor) values(expr string) (all []float64, err error) {
	var data struct{ Result []struct{ Value [2]any } }
	if err := m.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	for _, r := range data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return all, nil
}

// is returns an error unless an expression has these values.
func (m monitor) is(expr string, want ...float64) error {
	got, err := m.values(expr)
	if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
		err = fmt.Errorf("%s is %v; want %v", expr, got, want)
	}
	return err
}

// firing returns the alerts that fire, "name of a node or job".
func (m monitor) firing() (map[string]bool, error) {
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if err := m.get("/api/v1/alerts", nil, &data); err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]+" of "+a.Labels["fenlock_node_name"]+a.Labels["job"]] = true
		}
	}
	return all, nil
}

// A real Prometheus asks a job, a program and the page. Every panel of the dashboard has data. When
// a server goes, and when a lock is lost, the alerts fire.
func TestPrometheus(t *testing.T) {
	group, urls := servers(t, 3)
	free := func() string { return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t)) }
	jobAt, uiAt := free(), free()
	programAt, telemetry := exported(t)
	m := observe(t, map[string]string{"job": jobAt, "orders": programAt, "fenlock-group": uiAt})

	const name = `a "name" with \ and é`
	start(t, urls, "ui", "--listen", uiAt)
	job := start(t, urls, "run", "--metrics", jobAt, "--metrics-names", name, "--", "cat")
	l := open(t, urls, telemetry.Observer())
	stop := work(t, l, open(t, urls, fenlock.Observer{}))
	telemetry.Refused(t.Context(), &fence.StaleError{Resource: "orders", Token: 1, Newest: 2})

	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			expr := strings.ReplaceAll(filled(target.Expr), "[5m]", "[20s]")
			until(t, func() error {
				all, err := m.values(expr)
				if err == nil && len(all) == 0 {
					err = fmt.Errorf("the panel %q has no data: %s", p.Title, expr)
				}
				return err
			})
		}
	}
	// What is read is what was written.
	until(t, func() error {
		return m.is(`fenlock_held{fenlock_lock_name="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)+`"}`, 1)
	})
	until(t, func() error { return m.is(`sum(fenlock_node_admitted{job="job"})`, 3) })
	until(t, func() error { return m.is(`fenlock:nodes_spare`, 1, 1, 1) })
	for _, name := range known("-") {
		if strings.Contains(name, "_seconds") && !strings.Contains(name, "round_trip") {
			name += "_count"
		}
		until(t, func() error {
			all, err := m.values(name)
			if err == nil && len(all) == 0 {
				err = fmt.Errorf("there is no %s", name)
			}
			return err
		})
	}
	fires := func(alerts ...string) {
		t.Helper()
		until(t, func() error {
			all, err := m.firing()
			for _, a := range alerts {
				if err == nil && !all[a] {
					err = fmt.Errorf("%s does not fire, but %v", a, all)
				}
			}
			return err
		})
	}
	fires("FenlockGuardRefused of orders")
	until(t, func() error { // a machine that is busy may have a node late for a moment
		all, err := m.firing()
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("while all is well, these fire: %v", all)
		}
		return err
	})

	group[0].Kill()
	// Nodes are called as their URLs, which have no password here.
	fires("FenlockNodeDown of "+urls[0]+"fenlock-group", "FenlockNodeNotVoting of "+urls[0],
		"FenlockMajorityAtRisk of job", "FenlockMajorityAtRisk of fenlock-group", "FenlockMajorityAtRisk of orders")
	stop()
	lock := take(t, l, "lost")
	group[1].Kill()
	// The job has ended then, because it has lost its lock, and its metrics with it.
	fires("FenlockNoMajority of orders", "FenlockNoMajority of fenlock-group", "FenlockLost of orders")
	if lock.Context().Err() == nil {
		t.Error("an alert is about a loss that was none")
	}
	var exit *exec.ExitError
	if err := job.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 76 {
		t.Errorf("the job has ended with %v: %s", err, &job.said)
	}
}

// work has two Lockers take a lock in turns, until stop is called: each waits for the other.
func work(t *testing.T, both ...*fenlock.Locker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	for _, l := range both {
		go func() {
			for i := 0; ctx.Err() == nil; i++ {
				lock, err := l.Acquire(ctx, "work")
				if err != nil {
					continue
				}
				if i%10 == 9 {
					time.Sleep(90 * time.Millisecond) // for its first extension, if it was given
				}
				time.Sleep(10 * time.Millisecond)
				lock.Release(context.Background())
			}
			ended <- true
		}()
	}
	return func() {
		cancel()
		for range both {
			<-ended
		}
	}
}
