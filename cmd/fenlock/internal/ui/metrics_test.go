package ui

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/metrics"
)

// What Prometheus is told of the group, and that no lock is named there.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(3)
		f.hold("secret-name", "secret-label", 1, "a waiter", "another")
		f.hold("other", "secret-label", 2)
		f.nodes[1].State, f.nodes[1].RoundTrip = doctor.Out, 0
		f.nodes[2].State, f.nodes[2].RoundTrip = doctor.Down, 0
		a := browse(t, Config{Source: f})
		r := a.get("/metrics")
		r.want(t, 200,
			"# TYPE fenlock_group_node_state gauge\n",
			`fenlock_group_node_state{fenlock_node_name="valkey://10.0.0.1:6379",fenlock_state="votes"} 1`,
			`fenlock_group_node_state{fenlock_node_name="valkey://10.0.0.1:6379",fenlock_state="out"} 0`,
			`fenlock_group_node_state{fenlock_node_name="valkey://10.0.0.2:6379",fenlock_state="out"} 1`,
			`fenlock_group_node_state{fenlock_node_name="valkey://10.0.0.2:6379",fenlock_state="votes"} 0`,
			`fenlock_group_node_state{fenlock_node_name="valkey://10.0.0.3:6379",fenlock_state="down"} 1`,
			`fenlock_group_node_state{fenlock_node_name="valkey://10.0.0.3:6379",fenlock_state="misconfigured"} 0`,
			`fenlock_group_node_round_trip_seconds{fenlock_node_name="valkey://10.0.0.1:6379"} 0.001`,
			"\nfenlock_group_complete 1\n", "\nfenlock_group_held 2\n", "\nfenlock_group_waiting 2\n",
			"\nfenlock_group_late 0\n",
			"not", "secret", `round_trip_seconds{fenlock_node_name="valkey://10.0.0.2:6379"}`)
		if got := r.header.Get("Content-Type"); got != metrics.ContentType {
			t.Errorf("it is %s", got)
		}

		// A holder that does not extend, of whom the next one hears.
		time.Sleep(15 * time.Second)
		f.change(func() {
			l := f.locks["other"]
			l.Left = time.Second
			f.locks["other"] = l
		})
		a.get("/metrics").want(t, 200, "\nfenlock_group_late 1\n")

		time.Sleep(15 * time.Second)
		f.change(func() { f.err = f.noQuorum() })
		a.get("/metrics").want(t, 200, "\nfenlock_group_complete 0\n")
	})
}

// Between two rare scrapes the group is not looked at. However frequent the scrapes are, the
// nodes are asked at most once a second.
func TestMetricsLooks(t *testing.T) {
	onPage(t, 3, Config{}, func(t *testing.T, f *fake, a *asking) {
		for range 4 {
			a.get("/metrics").want(t, 200)
			time.Sleep(15 * time.Second)
		}
		if n := f.looked(); n != 4 {
			t.Errorf("%d looks for 4 questions", n)
		}
		for range 100 {
			a.get("/metrics").want(t, 200)
			time.Sleep(10 * time.Millisecond)
		}
		if n := f.looked(); n != 5 {
			t.Errorf("%d looks for 100 more within a second", n-4)
		}
		// Where a page is open, the looks for it are enough.
		a.get("/")
		time.Sleep(5500 * time.Millisecond) // between two of its looks
		before := f.looked()
		a.get("/metrics").want(t, 200)
		if n := f.looked(); n != before {
			t.Errorf("%d looks beside the page's", n-before)
		}
	})
}

// The token of the page is that of the metrics, and the page's host is theirs.
func TestMetricsToken(t *testing.T) {
	onPage(t, 3, Config{Token: testToken, Hosts: []string{"locks.example.com"}}, func(t *testing.T, f *fake, a *asking) {
		for _, r := range []answer{a.get("/metrics"), a.get("/metrics", "Authorization", "Bearer x"),
			a.get("/metrics", "Authorization", testToken)} {
			r.want(t, 401, "not", "fenlock_")
		}
		if f.looks > 0 {
			t.Errorf("%d looks", f.looks)
		}
		a.get("/metrics", "Authorization", "Bearer "+testToken).want(t, 200, "fenlock_group_complete 1")
		a.host = "locks.example.com"
		a.get("/metrics", "Authorization", "Bearer "+testToken).want(t, 200, "fenlock_group_complete 1")
		a.host = "rebound.example.com"
		a.get("/metrics", "Authorization", "Bearer "+testToken).want(t, 403, "not", "fenlock_group")
	})
}

// A group that hangs is told of as long as Prometheus waits for that, and then no more.
func TestMetricsOfAGroupThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := browse(t, Config{Source: stuck{newFake(1)}})
		a.client.Timeout = 10 * time.Second
		if resp, err := a.client.Get("http://127.0.0.1:5625/metrics"); err == nil {
			t.Errorf("it is answered with %s", resp.Status)
		}
		time.Sleep(time.Minute) // what hangs has come to its end
	})
}
