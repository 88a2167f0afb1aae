package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/otlptranslator"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockotel"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// patience ends a test that hangs; no test passes by it.
const patience = time.Minute

// program is the fenlock that the tests run.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	folder, err := os.MkdirTemp("", "fenlock-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	if program, err = testserver.BuildFenlock(folder); err != nil {
		panic(err)
	}
	return m.Run()
}

// until asks again and again, and fails the test when it has been told no for too long.
func until(t *testing.T, ask func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// servers are a group that votes already, with the URLs for its clients.
func servers(t *testing.T, n int) (all []*testserver.Server, urls []string) {
	t.Helper()
	all = testserver.Group(t, testserver.Kinds(t)[0], n)
	for _, s := range all {
		s.MarkAdmitted(valkeynode.DefaultPrefix, fenlock.DefaultMaxTTL)
		urls = append(urls, s.URL())
	}
	return all, urls
}

// command is a fenlock that runs until the test ends, or end is called.
type command struct {
	*exec.Cmd
	stdin io.Closer
	said  bytes.Buffer
}

// start starts one on a group.
func start(t *testing.T, urls []string, arguments ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	c := &command{Cmd: exec.CommandContext(ctx, program, arguments...)}
	c.Env = append(os.Environ(), "FENLOCK_NODES="+strings.Join(urls, ","))
	c.Stderr, c.WaitDelay = &c.said, patience
	var err error
	c.stdin, err = c.StdinPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { c.end() })
	return c
}

// end ends a command that waits for the end of its input, or for Ctrl-C.
func (c *command) end() error {
	if c.ProcessState != nil {
		return nil
	}
	if c.stdin.Close(); c.Args[1] == "ui" {
		c.Process.Signal(os.Interrupt)
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("%q: %v: %s", c.Args, err, &c.said)
	}
	return nil
}

// scrape asks for metrics and reads them as Prometheus' own library does.
func scrape(address string) (map[string]*dto.MetricFamily, error) {
	client := http.Client{Timeout: patience}
	resp, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return nil, fmt.Errorf("%s", resp.Status)
	}
	format := expfmt.ResponseFormat(resp.Header)
	if !strings.HasPrefix(string(format), "text/plain; version=0.0.4") {
		return nil, fmt.Errorf("the format is %q, by the header %q", format, resp.Header.Get("Content-Type"))
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(resp.Body)
}

// exported serves what a Go program exports by OpenTelemetry's exporter.
func exported(t *testing.T) (address string, telemetry *fenlockotel.Telemetry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	must(t, err)
	telemetry, err = fenlockotel.New(metric.NewMeterProvider(metric.WithReader(exporter)), nil)
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), telemetry
}

// open returns a Locker on the group, as a Go program has it.
func open(t *testing.T, urls []string, o fenlock.Observer) *fenlock.Locker {
	t.Helper()
	config := fenlock.Config{Observer: o}
	for _, url := range urls {
		n, err := valkeynode.Open(url)
		must(t, err)
		config.Nodes = append(config.Nodes, n)
	}
	l, err := fenlock.New(config)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// shape is what can be known of a metric without its values: its kind, help, labels, and
// the bounds of buckets.
func shape(f *dto.MetricFamily) string {
	text := fmt.Sprintf("%s %q", f.GetType(), f.GetHelp())
	labels := map[string]bool{}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			if !strings.HasPrefix(l.GetName(), "otel_scope_") && !labels[l.GetName()] {
				labels[l.GetName()] = true
				text += " " + l.GetName()
			}
		}
	}
	for _, b := range f.Metric[0].GetHistogram().GetBucket() {
		text += fmt.Sprint(" ", b.GetUpperBound())
	}
	return text
}

// What "fenlock run" says of itself is what a program says by OpenTelemetry: one dashboard
// is for both.
func TestCommandIsLikeTheLibrary(t *testing.T) {
	_, urls := servers(t, 3)
	address, telemetry := exported(t)
	l := open(t, urls, telemetry.Observer())
	held := take(t, l, "a")
	waited := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(context.Background(), "a")
		if err == nil {
			err = lock.Release(context.Background())
		}
		waited <- err
	}()
	waits := func(address string) {
		t.Helper()
		until(t, func() error {
			all, err := scrape(address)
			if err == nil && (all["fenlock_waiting"] == nil || all["fenlock_waiting"].Metric[0].Gauge.GetValue() != 1) {
				err = fmt.Errorf("nobody waits: %v", all["fenlock_waiting"])
			}
			return err
		})
	}
	waits(address)
	at := fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	job := start(t, urls, "run", "--metrics", at, "a", "--", "cat")
	waits(at)
	must(t, held.Extend(t.Context()))
	must(t, held.Release(t.Context()))
	must(t, <-waited)
	var running map[string]*dto.MetricFamily
	until(t, func() (err error) {
		running, err = scrape(at)
		if err == nil && running["fenlock_held"].Metric[0].Gauge.GetValue() != 1 {
			err = fmt.Errorf("it has no lock: %v", running["fenlock_held"])
		}
		return err
	})
	library, err := scrape(address)
	must(t, err)
	var names []string
	for name, f := range library {
		if !strings.HasPrefix(name, "fenlock_") {
			continue
		}
		names = append(names, name)
		switch own := running[name]; {
		case slices.Contains([]string{"fenlock_guard_refused_total", "fenlock_hold_duration_seconds",
			"fenlock_validity_left_seconds", "fenlock_extend_left_seconds"}, name):
			// It has no guard, and has not extended or released its lock yet.
		case own == nil:
			t.Errorf("fenlock run has no %s", name)
		case shape(own) != shape(f):
			t.Errorf("%s is\n\t%s\nof fenlock run, and of the library\n\t%s", name, shape(own), shape(f))
		}
	}
	for name := range running {
		if library[name] == nil {
			t.Errorf("only fenlock run has %s", name)
		}
	}
	slices.Sort(names)
	if want := known("fenlock_group_"); !slices.Equal(names, want) {
		t.Errorf("the library has %q, the table of the tests %q", names, want)
	}
	must(t, job.end())
	if _, err := scrape(at); err == nil {
		t.Error("it answers although it has ended")
	}
}
