package doctor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node"
)

// places finds nodes that fail together.
func (g Group) places(of report) {
	byHost := map[string][]string{}
	for _, info := range g.Nodes {
		if host := info.Examination.Address; host != "" {
			byHost[host] = append(byHost[host], info.Node)
		}
	}
	n := len(g.Nodes)
	spare := n - node.Quorum(n) // how many may fail
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		here := byHost[host]
		if len(here) < 2 {
			continue
		}
		f := node.Found("same-host", node.Note,
			"These nodes are on one machine, %s, as far as addresses tell: they fail together.", host)
		if len(here) > spare && !loopback(host) {
			f.Severity = node.Warning
			f.Reason += fmt.Sprintf(" Without them %d of %d are left, and %d are needed.", n-len(here), n, node.Quorum(n))
		}
		of(f.Do("Put them on machines that do not share power, disk and upgrades."), here...)
	}
}

// loopback reports whether an address is this machine's own, behind which a tunnel may
// lead anywhere.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// timing finds a TTL that is too short for the way to the nodes, or too long for them.
func (g Group) timing(of report) {
	for _, info := range g.Nodes {
		e := info.Examination
		patience := min(max(g.TTL/20, 25*time.Millisecond), time.Second) // fenlock.Config.NodeTimeout
		if e.Role == "file" {
			patience = g.TTL / 4 // of fenlock run
		}
		trip := e.RoundTrip.Round(10 * time.Microsecond)
		switch {
		case e.RoundTrip > patience:
			of(node.Found("round-trip", node.Error,
				"A round trip takes %v, and clients with a TTL of %v wait for %v: from here its vote comes too late.", trip, g.TTL,
				patience).
				Do("Use a longer --ttl, or nodes that are nearer; or look why it is slow (SLOWLOG GET, the load of its machine)."),
				info.Node)
		case e.RoundTrip > patience/2:
			of(node.Found("round-trip", node.Warning,
				"A round trip takes %v, and clients with a TTL of %v wait for %v: under load its vote will come too late.", trip,
				g.TTL, patience).
				Do("Use a longer --ttl, or nodes that are nearer."), info.Node)
		}
		if e.MaxTTL != 0 && g.TTL > e.MaxTTL {
			of(node.Found("ttl", node.Error, "A TTL of %v is longer than the group's longest lease, %v: the server refuses it.",
				g.TTL, e.MaxTTL).
				Do("Use a --ttl of %v at most, or raise MaxTTL (docs/operations.md, “Changing MaxTTL”).", e.MaxTTL), info.Node)
		}
	}
}
