//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// group are new servers, and what is known of them.
type group struct {
	servers []*testserver.Server
	urls    []string
}

// with starts servers, each with so many hundredths of a core, for f.
func (c *campaign) with(n, percent int, f func(*group) error) error {
	t := &testserver.Outside{}
	defer t.Close()
	c.running.Store(t)
	some := &shares{}
	t.Cleanup(some.end) // after the servers, which are started later
	return testserver.Try(func() error {
		g := &group{servers: testserver.Group(t, testserver.Kinds(t)[0], n, "enable-debug-command local",
			"maxclients 20000", "tcp-backlog 4096")}
		for _, s := range g.servers {
			g.urls = append(g.urls, s.URL())
		}
		l, err := library.Open(library.Config{Library: library.Fenlock, URLs: g.urls, TTL: c.ttl, MaxTTL: c.ttl,
			NodeTimeout: c.ttl / 20, New: true})
		if err != nil {
			return err
		}
		defer l.Close()
		if s := (&task{Patience: 4 * c.ttl}).cycle(l, "admitted"); s.Failed > 0 {
			return errors.New("no lock can be had of new servers")
		}
		if err := some.limit(g.servers, percent); err != nil {
			return err
		}
		return f(g)
	})
}

// requests is how many commands all servers have had from clients.
func (g *group) requests(of string) (n int) {
	for _, s := range g.servers {
		for line := range strings.Lines(s.Do("INFO", "commandstats")) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			sent := strings.HasPrefix(name, "eval") || of != library.Fenlock && name == "set" // fenlock's scripts set
			if count, err := strconv.Atoi(strings.SplitN(rest, ",", 2)[0]); sent && err == nil {
				n += count
			}
		}
	}
	return n
}

// each does something to some servers at once.
func each(servers []*testserver.Server, f func(*testserver.Server) error) error {
	errs := make(chan error)
	for _, s := range servers {
		go func() { errs <- testserver.Try(func() error { return f(s) }) }()
	}
	var all []error
	for range servers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// strike is what happens to servers for a quarter of a TTL.
type strike struct {
	name string
	do   func(c *campaign, g *group, d time.Duration) error
}

var strikes = []strike{
	{"SIGSTOP of a majority", func(_ *campaign, g *group, d time.Duration) error {
		return stop(g.servers[:len(g.servers)/2+1], d)
	}},
	{"SIGSTOP of all", func(_ *campaign, g *group, d time.Duration) error { return stop(g.servers, d) }},
	{"CLIENT PAUSE of all", func(_ *campaign, g *group, d time.Duration) error {
		return each(g.servers, func(s *testserver.Server) error {
			s.Do("CLIENT", "PAUSE", fmt.Sprint(d.Milliseconds()), "ALL")
			time.Sleep(d)
			return nil
		})
	}},
	{"DEBUG SLEEP of all", func(_ *campaign, g *group, d time.Duration) error {
		return each(g.servers, func(s *testserver.Server) error {
			_, err := s.Ask("", "", 8*d, "DEBUG", "SLEEP", fmt.Sprint(d.Seconds()))
			return err
		})
	}},
	{"four busy loops for two TTLs", func(c *campaign, _ *group, _ time.Duration) error {
		w, err := start(task{Do: "burn", Count: 4})
		if err != nil {
			return err
		}
		defer w.end()
		time.Sleep(2 * c.ttl)
		return nil
	}},
}

func stop(servers []*testserver.Server, d time.Duration) error {
	for _, s := range servers {
		s.Pause()
	}
	time.Sleep(d)
	for _, s := range servers {
		s.Resume()
	}
	return nil
}

// holders are processes that hold locks.
type holders []*worker

func (c *campaign) holders(g *group, of string, processes, each int) (all holders, err error) {
	for i := range processes {
		w, err := start(task{Do: "hold", Library: of, URLs: g.urls, TTL: c.ttl, Count: each,
			Name: fmt.Sprint("held ", i, " ")})
		if err != nil {
			return all, err
		}
		all = append(all, w)
		if i%20 == 19 { // they start, and connect, in groups
			if _, err := w.last(); err != nil {
				return all, err
			}
		}
	}
	_, err = all.sum()
	return all, err
}

func (h holders) sum() (sum status, err error) {
	for _, w := range h {
		s, failed := w.last()
		err = errors.Join(err, failed)
		sum.Held, sum.Lost, sum.Behind = sum.Held+s.Held, sum.Lost+s.Lost, sum.Behind+s.Behind
	}
	return sum, err
}

func (h holders) end() {
	for _, w := range h {
		w.in.Close()
	}
	for _, w := range h {
		w.end()
	}
}

// normal waits, at most so long, until no lock is behind for a third of a TTL, and returns since
// when.
func (c *campaign) normal(h holders, most time.Duration) (time.Duration, error) {
	began := time.Now()
	since := began
	for time.Since(began) < most {
		s, err := h.sum()
		if err != nil {
			return 0, err
		}
		if s.Behind > 0 {
			since = time.Now()
		}
		time.Sleep(c.ttl / 100)
	}
	if since.Sub(began) > most-c.ttl/3 {
		return -1, nil
	}
	return since.Sub(began), nil
}

// held has processes hold locks while servers stand still.
func (c *campaign) held(n int, of string, processes, locks int, which []strike) error {
	return c.with(n, c.share, func(g *group) error {
		h, err := c.holders(g, of, processes, locks)
		defer h.end()
		if err != nil {
			return err
		}
		if _, err := c.normal(h, c.ttl); err != nil {
			return err
		}
		before := g.requests(of)
		time.Sleep(c.ttl)
		calm := g.requests(of) - before
		first, err := h.sum()
		if missing := processes*locks - first.Held; err != nil || missing > 0 {
			c.report(n, fmt.Sprintf("nothing; %d × %d locks", processes, locks), of, processes*locks, missing, 0, "", "")
		}
		for _, strike := range which {
			was, err := h.sum()
			if err != nil || was.Held == 0 {
				return err
			}
			before = g.requests(of)
			began := time.Now()
			if err := strike.do(c, g, c.ttl/4); err != nil {
				return err
			}
			normal, err := c.normal(h, c.watch)
			if err != nil {
				return err
			}
			is, err := h.sum()
			if err != nil {
				return err
			}
			rate := float64(g.requests(of)-before) / time.Since(began).Seconds() * c.ttl.Seconds()
			c.report(n, fmt.Sprintf("%s; %d × %d locks", strike.name, processes, locks), of, was.Held, is.Lost-was.Lost, normal,
				"", fmt.Sprintf("%.1f a TTL (%.1f calm)", rate/float64(was.Held), float64(calm)/float64(processes*locks)))
			if of == library.Fenlock && is.Lost == 0 {
				if err := c.refused(g, processes, locks); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// refused has another client try to get some of the locks that are held. It must not.
func (c *campaign) refused(g *group, processes, locks int) error {
	l, err := open(library.Fenlock, g.urls, c.ttl, "")
	if err != nil {
		return err
	}
	defer l.Close()
	for i := range 100 {
		name := fmt.Sprint("held ", i*processes/100, " ", i*locks/100)
		lease, err := l.TryAcquire(c.ctx, name)
		switch {
		case err == nil:
			c.fail(library.Fenlock, "a second client holds %q with token %d", name, lease.Token())
		case !errors.Is(err, fenlock.ErrHeld):
			c.fail(library.Fenlock, "a second client that wants %q is not told that it is held: %v", name, err)
		}
	}
	return nil
}

// beyond has locks held while clients ask for more than the servers can do.
func (c *campaign) beyond(n int, of string, clients, held int, length time.Duration) error {
	const times = 2
	return c.with(n, c.beyondShare, func(g *group) error {
		h, err := c.holders(g, of, 1, held)
		defer h.end()
		if err != nil {
			return err
		}
		ask := task{Do: "ask", Library: of, URLs: g.urls, TTL: c.ttl, Clients: clients, Patience: c.ttl, Length: c.ttl / 2}
		var peak float64
		for _, parallel := range []int{8, 32, 128} {
			ask.Name, ask.Parallel = fmt.Sprint("peak ", parallel, " "), parallel
			w, err := start(ask)
			if err != nil {
				return err
			}
			s, err := w.last()
			w.end()
			if err != nil {
				return err
			}
			peak = max(peak, float64(s.Done)/s.Took.Seconds())
		}
		l, err := open(of, g.urls, c.ttl, "")
		if err != nil {
			return err
		}
		defer l.Close()
		probe := func() time.Duration {
			time.Sleep(c.ttl / 200)
			return (&task{Patience: c.ttl}).cycle(l, "probe").Took
		}
		time.Sleep(c.ttl / 2)
		probe() // which connects
		var usual time.Duration
		for began := time.Now(); time.Since(began) < c.ttl/4; {
			usual = max(usual, probe())
		}
		before := g.requests(of)
		ask.Name, ask.Parallel, ask.Rate, ask.Length = "beyond ", 0, times*peak, length
		w, err := start(ask)
		if err != nil {
			return err
		}
		defer w.end() // what is under way may go on after its length
		s, err := w.last()
		if err != nil {
			return err
		}
		over := time.Now()
		sent := g.requests(of) - before
		var normal time.Duration
		for time.Since(over) < c.watch {
			if took := probe(); took > 2*usual {
				normal = time.Since(over)
			}
		}
		if late, err := c.normal(h, c.ttl/2); err != nil || late != 0 || normal > c.watch-c.ttl/10 {
			normal = -1
		}
		is, err := h.sum()
		c.report(n, fmt.Sprintf("%d times what %d clients can have, for %v; 1 × %d locks", times, clients, length, held), of,
			held, is.Lost, normal, fmt.Sprintf("%.0f %% of %.0f a second", 100*float64(s.Done)/s.Took.Seconds()/peak, peak),
			fmt.Sprintf("%.1f an acquisition", float64(sent)/float64(max(1, s.Done))))
		return err
	})
}

// herd has so many clients begin at once, several times, beside four busy loops.
func (c *campaign) herd(n int, of, kind string, clients, times int) error {
	return c.with(n, c.share, func(g *group) error {
		burn, err := start(task{Do: "burn", Count: 4})
		if err != nil {
			return err
		}
		defer burn.end()
		var took []time.Duration
		done, failed, before := 0, 0, g.requests(of)
		for i := range times {
			w, err := start(task{Do: kind, Library: of, URLs: g.urls, TTL: c.ttl, Name: fmt.Sprint("herd ", i), Count: clients,
				Patience: 6 * c.ttl})
			if err != nil {
				return err
			}
			s, err := w.last()
			w.end()
			if err != nil {
				return err
			}
			if s.Wrong != "" {
				c.fail(of, "%s of %d: %s", kind, clients, s.Wrong)
			}
			if kind == herdTick && s.Done > 1 {
				c.fail(of, "%d clients were told that they have the lock", s.Done)
			}
			if s.Why != "" && (kind != herdTick || s.Done == 0) {
				fmt.Fprintf(c.out, "<!-- %s -->\n", s.Why)
			}
			took, done, failed = append(took, s.Took), done+s.Done, failed+s.Failed
		}
		slices.Sort(took)
		round := func(i int) time.Duration { return took[i].Round(time.Millisecond) }
		c.report(n, fmt.Sprintf("a herd of %d beside four busy loops: %s", clients, kind), of, 0, 0, 0,
			fmt.Sprintf("%d done, %d not; %v (%v to %v)", done, failed, round(len(took)/2), round(0), round(len(took)-1)),
			fmt.Sprintf("%.1f a client", float64(g.requests(of)-before)/float64(times*clients)))
		return nil
	})
}
