//go:build linux || darwin || freebsd

package command

import (
	"math"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// The documents of nodes --json and doctor --json: see locksjson.go.

type nodesDoc struct {
	At     time.Time `json:"at"`
	Needed int       `json:"votes_needed"`
	Usable int       `json:"usable"`
	Nodes  []nodeDoc `json:"nodes"`
}

type nodeDoc struct {
	Node          string     `json:"node"`
	State         string     `json:"state"`
	Why           string     `json:"why,omitempty"`
	WaitMS        int64      `json:"wait_ms,omitempty"`
	Product       string     `json:"product,omitempty"`
	Version       string     `json:"version,omitempty"`
	Role          string     `json:"role,omitempty"`
	Server        string     `json:"server,omitempty"`
	Address       string     `json:"address,omitempty"`
	RoundTripMS   float64    `json:"round_trip_ms,omitempty"`
	UptimeMS      int64      `json:"uptime_ms,omitempty"`
	MaxTTLMS      int64      `json:"max_ttl_ms,omitempty"`
	Member        string     `json:"member,omitempty"`
	Members       []string   `json:"members,omitempty"`
	Clock         *time.Time `json:"clock,omitempty"`
	ClockOffsetMS *float64   `json:"clock_offset_ms,omitempty"`
}

type diagnosisDoc struct {
	nodesDoc
	ExitStatus int          `json:"exit_status"`
	Findings   []findingDoc `json:"findings"`
}

type findingDoc struct {
	Check    string   `json:"check"`
	Severity string   `json:"severity"`
	Nodes    []string `json:"nodes"`
	Reason   string   `json:"reason"`
	Advice   string   `json:"advice,omitempty"`
}

// diagnosis is the document of doctor.
func (v groupView) diagnosis(found []doctor.Finding, status int) diagnosisDoc {
	d := diagnosisDoc{v.document(), status, []findingDoc{}}
	for _, f := range found {
		nodes := append([]string{}, f.Nodes...) // not null
		d.Findings = append(d.Findings, findingDoc{f.Check, f.Severity.String(), nodes, plain(f.Reason), plain(f.Advice)})
	}
	return d
}

// document is the one of nodes.
func (v groupView) document() nodesDoc {
	d := nodesDoc{At: v.at.UTC(), Needed: v.need, Usable: v.usable}
	for _, n := range v.nodes {
		e := n.Examination
		one := nodeDoc{
			Node: n.Node, State: string(n.State), Why: plain(n.Why), WaitMS: n.Wait.Milliseconds(),
			Product: e.Product, Version: e.Version, Role: e.Role, Server: e.Server, Address: e.Address,
			RoundTripMS: ms(e.RoundTrip), UptimeMS: e.Uptime.Milliseconds(), MaxTTLMS: e.MaxTTL.Milliseconds(),
			Member: e.Member, Members: e.Members,
		}
		if ahead, _, known := doctor.Offset(n.NodeInfo); known {
			shown, offset := e.Clock.Store.UTC(), ms(ahead)
			one.Clock, one.ClockOffsetMS = &shown, &offset
		}
		d.Nodes = append(d.Nodes, one)
	}
	return d
}

// ms is a duration in milliseconds, to the microsecond: most round trips are less than one.
func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }
