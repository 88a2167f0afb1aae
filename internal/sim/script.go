package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/check"
	"github.com/fenlock/fenlock/node"
)

// A script is a run without chance: every message takes 50 µs, and clients do what is
// written, such as
//
//	# whatever it is about
//	nodes 3, clients 2, ttl 1s, timeout 200ms, hold 1h
//	 10ms client 0 acquires x as A
//	 20ms client 1 tries x as B
//	 30ms client 1 loses requests to node 2
//	500ms client 0 releases A
//	800ms end
//
// A client acquires or tries a name (x and y share a register, z has another) as something. It can
// cancel that, and if it has the name extend and release; it closes; it loses requests to a node or
// answers of a node, until it reaches the node again. The first line may end in ", in order" or ",
// in no order": whether nodes promise to keep requests in order. Without, the script is played both
// ways.
type script struct {
	nodes, clients     int
	ttl, timeout, hold time.Duration
	ordered            []bool
	steps              []step
}

// step is one thing that a client does, some 0.4 ms past the millisecond, so that
// nothing happens where times are rounded.
type step struct {
	at     time.Duration
	client int
	does   string
	what   string // a name, or a node
	as     string
}

var scriptNames = []string{"x", "y", "z"}

// parseScript reads a script.
func parseScript(text string) (s script, err error) {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"),
		func(l string) bool { return strings.HasPrefix(l, "#") })
	var ttl, timeout, hold string
	fields := strings.SplitN(lines[0], ", ", 6)
	s.ordered = []bool{false, true}
	if len(fields) == 6 {
		s.ordered = []bool{fields[5] == "in order"}
	}
	if _, err = fmt.Sscanf(strings.Join(fields[:min(5, len(fields))], " "),
		"nodes %d clients %d ttl %s timeout %s hold %s", &s.nodes, &s.clients, &ttl, &timeout, &hold); err != nil {
		return s, fmt.Errorf("%q: %w", lines[0], err)
	}
	for to, from := range map[*time.Duration]string{&s.ttl: ttl, &s.timeout: timeout, &s.hold: hold} {
		if *to, err = time.ParseDuration(from); err != nil {
			return s, err
		}
	}
	for _, line := range lines[1:] {
		words := strings.Fields(line)
		at, err := time.ParseDuration(words[0])
		if err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
		p := step{at: at + 400*time.Microsecond}
		words = words[1:]
		switch {
		case len(words) == 1 && words[0] == "end":
			p.does = "end"
		case len(words) < 3 || words[0] != "client" || strings.Trim(words[1], "0123456789") != "":
			return s, fmt.Errorf("%q is no step", line)
		default:
			fmt.Sscan(words[1], &p.client)
			p.does, p.what = words[2], words[len(words)-1]
			switch {
			case p.does == "loses":
				p.does += " " + words[3]
			case p.does == "reaches":
				p.what = words[4]
			case len(words) == 6:
				p.what, p.as = words[3], words[5]
			}
		}
		s.steps = append(s.steps, p)
	}
	return s, nil
}

// ever is longer than any script.
const ever = 1000 * time.Hour

// world makes the world of a script.
func (s script) world(ordered bool, r rules) *world {
	w := &world{run: run{engine: newEngine(0), maxTTL: s.ttl, quietAt: ever}, rules: r}
	w.profile.starters = ordered
	w.newNames(len(scriptNames))
	w.terms = groupTerms(s.ttl, s.nodes)
	for i := range s.nodes {
		w.nodes = append(w.nodes, newServer(&w.run, &w.rules.nodeRules, i, clock{offset: time.Hour}))
	}
	for range s.clients {
		c := w.add(clock{offset: time.Hour})
		c.wall, c.ttl, c.nodeTimeout, c.maxHold = ever, s.ttl, s.timeout, s.hold
		c.begin(0)
	}
	w.progress = check.NewProgress(0, ever, ever)
	return w
}

// play plays a script, and returns what the nodes saw and the callers were told, a line each. Lines
// are in order of time and then of words: goroutines of one moment have no order.
func (s script) play(ordered bool, r rules) []string {
	w := s.world(ordered, r)
	var lines []string
	tell := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%6d ms  ", w.now.Milliseconds())+fmt.Sprintf(format, args...))
	}
	w.served = func(client, at int, r node.Request, a node.Answer) {
		with := ""
		if r.Place.Stamp != 0 {
			with = ", with a place"
		}
		tell("client %d, node %d: %v %s%s: %v", client, at, r.Op, scriptNames[slices.Index(w.names, r.Name)], with, a.Status)
	}
	end := ever
	known := make(map[string]*acquisition)
	for _, p := range s.steps {
		if p.does == "end" {
			end = p.at
			continue
		}
		c := w.clients[p.client]
		var node int
		fmt.Sscan(p.what, &node)
		c.at(p.at, func() {
			switch p.does {
			case "acquires", "tries":
				name := p.as
				known[name] = c.acquire(slices.Index(scriptNames, p.what), p.does == "acquires", false, func(l *lock) {
					if l == nil {
						tell("%s failed", name)
					} else {
						tell("%s acquired", name)
					}
				})
				known[name].onEnd = func() { tell("%s ended", name) }
			case "cancels":
				known[p.what].cancel()
			case "extends":
				known[p.what].lock.extendNow()
			case "releases":
				known[p.what].lock.release(func() { tell("%s released", p.what) })
			case "closes":
				c.shell.Close(func() { tell("client %d closed", c.id) })
			case "loses requests":
				c.links[node].blocked[toNode] = ever
			case "loses answers":
				c.links[node].blocked[toClient] = ever
			case "reaches":
				c.links[node].blocked = [2]time.Duration{}
			default:
				tell("client %d cannot %q", c.id, p.does)
			}
		})
	}
	for len(w.agenda.heap) > 0 && w.agenda.heap[0].at <= end {
		w.step()
	}
	slices.Sort(lines)
	return lines
}
