package examine

import (
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// Examination says what a server is, and what a person should know of it.
func (s Server) Examination() node.Examination {
	e := node.Examination{
		Product: s.product(), Version: s.version(), Server: s.RunID, Role: s.Role(),
		Address: s.Reached.Address, Uptime: s.Uptime, Memory: s.ReplID, Empty: s.Empty,
	}
	if e.Role != "replica" { // what is there is its primary's record
		e.MaxTTL = s.Terms.MaxTTL
	}
	if e.Role != "replica" && s.Members != command.AnyMembers {
		e.Members = slices.Sorted(strings.FieldsSeq(s.Members))
	}
	if s.Refused == nil && s.Unreadable == nil {
		o := admission.LookAhead(s.Looked, s.Now, s.MaxTTL)
		e.Admitted, e.Why, e.Wait, e.Rebuild, e.Untouched = o.Admitted, o.Why, o.Wait, o.Rebuild, o.Untouched
	}
	// Of a server that holds no locks nothing else matters.
	if e.Findings = s.unfit(); e.Role == "primary" {
		e.Findings = slices.Concat(e.Findings, s.permissions(), s.memory(), s.disk(), s.crash(), s.replicas(), s.connections())
		if s.Close != nil {
			e.Findings = slices.Concat(e.Findings, s.account(), s.registers(), s.entries())
		}
	}
	e.Findings = append(e.Findings, s.reached()...)
	e.Findings = append(e.Findings, knownHoles(e.Product, e.Version, s.Reached.TLS)...)
	return e
}
