package examine

import (
	"slices"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
)

// Examination says what a server is, and what a person should know of it.
func (s Server) Examination() node.Examination {
	e := node.Examination{
		Product: s.product(), Version: s.version(), Server: s.RunID, Role: s.Role(),
		Address: s.Reached.Address, Uptime: s.Uptime, Memory: s.Facts.Memory(), Empty: s.Empty,
	}
	facts := s.Facts
	facts.Now = s.Now
	if e.Role != "replica" { // what is there is its primary's record
		admission.FactsOf(facts).Examine(&e, s.MaxTTL)
	}
	switch {
	case s.Refused != nil || s.Unreadable != nil:
		e.Admitted, e.Why, e.Wait, e.Rebuild, e.Untouched = false, "", 0, false, false
	case s.Fragile():
		e.Admitted, e.Wait, e.Rebuild, e.Untouched = false, 0, false, true
		e.Why = "it was started again; the next client that asks it for a lock finds out whether it has all its data: then it votes at once, or after MaxTTL"
	}
	// Of a server that holds no locks nothing else matters.
	if e.Findings = s.unfit(); e.Role == "primary" {
		e.Findings = slices.Concat(e.Findings, s.permissions(), s.memory(), s.disk(), s.crash(), s.replicas(), s.witness(),
			s.migration(), s.connections())
		if s.Close != nil {
			e.Findings = slices.Concat(e.Findings, s.account(), s.registers(), s.entries())
		}
	}
	e.Findings = append(e.Findings, s.reached()...)
	e.Findings = append(e.Findings, knownHoles(e.Product, e.Version, s.Reached.TLS)...)
	return e
}
