package doctor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

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
